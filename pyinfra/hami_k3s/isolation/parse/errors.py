"""The one exception of the parsers."""


class ParseError(ValueError):
    """Text that is not what its name says. The message shows the beginning of it."""

    def __init__(self, what: str, text: str, why: str) -> None:
        shown = text if len(text) <= 120 else text[:117] + "..."
        super().__init__(f"{what}: {why}: {shown!r}")
