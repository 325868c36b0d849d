"""What is wrong with a trace, and where."""


class TraceError(Exception):
    """A trace cannot be played; `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why
