"""Gather what a person needs who looks into this node's part of an attempt.

The bundle stays on the node: only its name, size and digest travel. What might be
a secret is taken out on the way, since bundles are mailed around: the agent's own
token is never read into one, and what looks like a password in a log is blackened.
"""

import hashlib
import io
import os
import re
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from middlewatch_wire.commands import BundleArgs

from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.files import PRIVATE_FILE, private_folder, read_text
from middlewatch_agent.ranks import status

FOLDER = "bundles"
TOKEN_FILE = "token"  # noqa: S105 - the name of a file
KEPT = 5
MAX_BYTES = 32 << 20
"""Unpacked size of a bundle; what does not go in is named in `contents.txt`."""
LOG_TAIL_BYTES = 256 << 10
KERNEL_TAIL_BYTES = 256 << 10
MAX_RANKS = 64
MAX_RECORDS = 100_000
MAX_RECORD_BYTES = 8192
MAX_WHY = 300
MAX_LEFT_OUT = 64
CONTENTS = "contents.txt"
_SECRET = re.compile(
    rb"""(?ix) ( (?:(?:token|passw(?:or)?d|secret|api[_-]?key|access[_-]?key)["']?\s{0,9}[=:]\s{0,9}["']?)
               | (?:authorization["']?\s{0,9}[:=]\s{0,9}["']?(?:(?:bearer|basic)\s{1,9})?) | (?:bearer\s{1,9})
               | (?:://[^/\s:@]{1,99}:) )
        [^\s"'@,;]{4,}"""
)
"""Words that are followed by a secret, and the secret.

Each part before the secret is bounded: logs are a stranger's, and while a pattern backtracks the agent stands still.
"""

Part = tuple[str, Callable[[], bytes]]


def attach(context: AgentContext) -> None:
    """Let the agent carry out `support.bundle`."""
    context.register_command("support.bundle", Bundler(context), repeatable=True)


class Bundler:
    """The handler of `support.bundle`."""

    def __init__(self, context: AgentContext) -> None:
        """Write below the state folder of `context`."""
        self._context = context

    def __call__(self, command: Command, /) -> Outcome:
        """Write one bundle and forget the oldest ones."""
        try:
            args = msgspec.convert(dict(command.args), BundleArgs)
        except msgspec.ValidationError as error:
            return Outcome(state="refused", output_tail=str(error))
        folder = private_folder(self._context.state_dir / FOLDER)
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path = folder / f"{when}-{_digest(command.command_id.encode())[:8]}.tar.gz"
        token = read_text(self._context.state_dir / TOKEN_FILE) or ""
        left_out = _write(path, self._parts(args), token.encode())
        _forget_old(folder)
        data = {"file": str(path), "bytes": path.stat().st_size, "sha256": _digest(path.read_bytes()),
                "left_out": left_out}  # fmt: skip
        return Outcome(data=data)

    def _parts(self, args: BundleArgs) -> Iterator[Part]:
        state_dir = self._context.state_dir
        yield "doctor.txt", self._doctor
        yield "spool.txt", lambda: _spool(state_dir / "spool.db")
        yield "kernel.txt", lambda: _kernel(Path(self._context.config.kmsg_path))
        for path in _status_files(state_dir / "ranks", args)[:MAX_RANKS]:
            yield f"ranks/{path.name}", partial(_tail, path, status.MAX_STATUS_BYTES)
            if log := _log_of(path):
                yield f"logs/{log.name}", partial(_tail, log, LOG_TAIL_BYTES)

    def _doctor(self) -> bytes:
        from middlewatch_agent.doctor import examine  # noqa: PLC0415 - needed here alone

        verdicts = examine(self._context.state_dir, self._context.config)
        return "".join(f"{one.mark}  {one.topic}: {one.text}\n" for one in verdicts).encode()


def _status_files(folder: Path, args: BundleArgs) -> list[Path]:
    """The status files that are asked for, newest first."""
    found = [path for path in folder.glob("*.json") if _is_about(path, args)]
    return sorted(found, key=lambda path: path.lstat().st_mtime, reverse=True)


def _is_about(path: Path, args: BundleArgs) -> bool:
    known = _status(path)
    if known is None:
        return args.run is None
    return args.run in (None, known.run) and args.attempt in (None, known.attempt)


def _status(path: Path) -> status.RankStatus | None:
    try:
        return status.read(path)
    except ValueError:
        return None


def _log_of(path: Path) -> Path | None:
    known = _status(path)
    return Path(known.log) if known and known.log else None


def _tail(path: Path, limit: int) -> bytes:
    """The end of a plain file; a link or a device gives an error instead of something else's content."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - limit))
        return file.read(limit)


def _spool(path: Path) -> bytes:
    from middlewatch_agent.spool.report import describe  # noqa: PLC0415 - needed here alone

    return describe(path).encode()


def _kernel(path: Path) -> bytes:
    """The end of the kernel's ring buffer, one record a line."""
    lines: list[bytes] = []
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(descriptor, MAX_RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # the ring overtook us
                continue
            if not record:
                break
            lines.append(record.partition(b"\n")[0])
    finally:
        os.close(descriptor)
    return b"\n".join(lines)[-KERNEL_TAIL_BYTES:]


def _write(path: Path, parts: Iterable[Part], token: bytes) -> list[str]:
    """Write the bundle and return what was left out of it and why."""
    left_out: list[str] = []
    scratch, room = path.with_name(f".{path.name}"), MAX_BYTES
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as bundle:
        for name, read in parts:
            try:
                content = blackened(read(), token)
            except (OSError, ValueError) as error:
                left_out.append(f"{name}: {error}"[:MAX_WHY])
                continue
            if len(content) > room:
                left_out.append(f"{name}: the bundle is full")
                continue
            room -= len(content)
            _put(bundle, name, content)
        _put(bundle, CONTENTS, _contents(bundle.getnames(), left_out))
    scratch.replace(path)
    return left_out[:MAX_LEFT_OUT]


def _contents(names: list[str], left_out: list[str]) -> bytes:
    lines = ["In this bundle:", *names, "", "Left out:", *(left_out or ["nothing"])]
    return ("\n".join(lines) + "\n").encode()


def blackened(content: bytes, token: bytes) -> bytes:
    """Take out the node's own token and whatever follows a word for a secret."""
    if token:
        content = content.replace(token, b"[secret]")
    return _SECRET.sub(rb"\1[secret]", content)


def _put(bundle: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(content), int(time.time()), PRIVATE_FILE
    bundle.addfile(member, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _forget_old(folder: Path) -> None:
    for path in sorted(folder.glob("*.tar.gz"), key=lambda one: one.stat().st_mtime_ns)[:-KEPT]:
        path.unlink(missing_ok=True)
