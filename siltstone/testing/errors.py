"""The errors that a test gets when the broker does not do what the test asks."""
# ruff: noqa: N818  # each is named by what happened


class StartFailed(Exception):
    """The broker did not start; the text says why, with the last lines of its log."""


class AskedInVain(Exception):
    """The broker does not do what a test asks; the text says why."""


class Refused(AskedInVain):
    """The broker answers with an error; ``code`` is Kafka's error code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
