"""Small modules and short functions."""

import ast
from statistics import median

from tests.architecture.sources import CODE, files, short, tree

MOST_LINES = 500
MOST_MEDIAN_LINES = 10


def test_no_file_is_longer_than_500_lines():
    long = {
        short(path): lines
        for path in files(".py", ".js", ".css", ".html", ".toml", ".sh")
        if (lines := path.read_text().count("\n")) > MOST_LINES
    }
    assert long == {}


def test_the_median_function_is_under_ten_lines():
    lengths = [
        node.end_lineno - node.body[0].lineno + 1
        for path in files(".py", under=CODE)
        if "migrations" not in path.parts
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert median(lengths) < MOST_MEDIAN_LINES
