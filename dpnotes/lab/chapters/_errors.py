"""The error of executing chapters and building the book."""


class BookError(RuntimeError):
    """A chapter could not be executed, or the book not be built; what was published before is as it was.

    Parameters
    ----------
    message : str
        One line that says what failed.
    trace : str
        Traceback of the cell that failed; empty if none did.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message, trace)  # both are args, so that the error travels between processes
        self.trace = trace

    def __str__(self) -> str:
        return str(self.args[0])
