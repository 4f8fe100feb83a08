"""What can go wrong for the person who runs a job: one sentence, and what to do next."""
# ruff: noqa: N818  # each name says what is the matter


class PipelineError(Exception):
    """A fault that its sentence explains; a command prints it alone, unless asked for more."""


class BadOption(PipelineError, ValueError):
    """An option that nobody knows, or with a value that it cannot have."""


class DataLost(PipelineError):
    """Offsets that were asked for are not there any more."""


class CorruptLog(PipelineError):
    """Bytes that are no record batch, or not the one that was written."""


class SnapshotExpired(PipelineError):
    """Files of the planned moment are gone: what is left is of several moments."""


class SourceUnavailable(PipelineError):
    """Nobody answers, or nothing is where the data should be."""
