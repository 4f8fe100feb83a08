"""Why a start ends before clients are served."""


class StartError(Exception):
    """The broker cannot start; the text says what is in the way and what to do."""
