"""Read runbook files: YAML without aliases, tags or repeated keys, bounded in every way.

Only the shape is read here; what it means is checked by `domain.recovery.compiling`,
which needs the line of every value.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from controlplane.domain.recovery.document import Document, Fields, Items, Leaf, Problem, Tree

MAX_FILE_BYTES = 64 * 1024
MAX_FILES = 200
MAX_DEPTH = 8
MAX_NODES = 4000
SUFFIX = ".yaml"


class UnreadableError(Exception):
    """A file cannot be read as a runbook at all."""

    def __init__(self, line: int, why: str) -> None:
        """Keep the place and the reason."""
        super().__init__(why)
        self.problem = Problem(line, "", why)


def read_all(folders: Iterable[Path]) -> tuple[list[Document], dict[str, list[Problem]]]:
    """Read every runbook file of some folders; return what could be read and the problems of the rest by file."""
    documents: list[Document] = []
    problems: dict[str, list[Problem]] = {}
    found = paths(folders)
    for path in found[:MAX_FILES]:
        try:
            documents.append(read(path))
        except UnreadableError as error:
            problems[str(path)] = [error.problem]
    for path in found[MAX_FILES:]:
        problems[str(path)] = [Problem(1, "", f"is not read: there are more than {MAX_FILES} files")]
    return documents, problems


def paths(folders: Iterable[Path]) -> Sequence[Path]:
    """Return the files of some folders, by folder and then by name; a folder that is not there has none.

    Of too many, the first one that is not read stands for the others.
    """
    return [path for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}"))][: MAX_FILES + 1]


def read(path: Path) -> Document:
    """Read one file. Raises UnreadableError with the line."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableError(1, f"cannot be read: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise UnreadableError(1, f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(raw.count(b"\n", 0, error.start) + 1, "is not UTF-8") from error
    return Document(str(path), text, parse(text))


def parse(text: str) -> Tree:
    """Make a tree of a text. Raises UnreadableError with the line."""
    try:
        _refuse_tricks(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableError(mark.line + 1 if mark else 1, error.problem or "is not YAML") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableError(1, f"is not YAML: {str(error).splitlines()[0][:200]}") from error
    if root is None:
        raise UnreadableError(1, "is empty")
    return _tree(root)


def _refuse_tricks(text: str) -> None:
    """Look at the events before anything is built: an alias may stand for a tree of any size."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UnreadableError(line, "anchors and aliases (& and *) are not allowed")
        if getattr(event, "tag", None):
            raise UnreadableError(line, "tags (!) are not allowed")
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UnreadableError(line, f"is nested deeper than {MAX_DEPTH}")
        if nodes > MAX_NODES:
            raise UnreadableError(line, f"has more than {MAX_NODES} values")


def _tree(node: Node) -> Tree:
    line = node.start_mark.line + 1
    if isinstance(node, MappingNode):
        return Fields(_named(node), line)
    if isinstance(node, SequenceNode):
        return Items(tuple(_tree(item) for item in node.value), line)
    return Leaf(_scalar(node), line)


def _named(node: MappingNode) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode):
            raise UnreadableError(line, "a name must be a plain word")
        if key.value in found:
            raise UnreadableError(line, f"{key.value[:60]} stands twice")
        found[key.value] = _tree(value)
    return found


def _scalar(node: Node) -> str | int | float | bool | None:
    try:
        value = yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableError(node.start_mark.line + 1, "has a value that cannot be read") from error
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(node.value)
