"""The end of a command without an answer."""


class Failure(Exception):  # noqa: N818 -- it ends a command, and is no error in it
    """Reason for which a command ends: one sentence with an advice.

    Attributes:
        status: the exit status of the process.

    """

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status
