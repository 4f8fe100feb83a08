"""The errors of jobs: each is one sentence that says what to do next."""
# ruff: noqa: N818  # each name says what is the matter

import re
from typing import Final

_OF_PYTHON: Final = re.compile(r"^\w*(?:Error|Exception): .+$", re.MULTILINE)


class PipelineError(Exception):
    """A fault that its sentence explains; without ``--debug`` a command prints nothing more."""


class BadOption(PipelineError, ValueError):
    """An option that is not known, or has an impossible value."""


class Refused(PipelineError):
    """A job that could give a wrong table or topic; nothing was changed."""


class DataLost(PipelineError):
    """Offsets that were asked for no longer exist."""


class CorruptLog(PipelineError):
    """Bytes that are not a record batch, or that differ from the written one."""


class SnapshotExpired(PipelineError):
    """Files of the planned moment are gone, so a read would mix several moments."""


class SourceUnavailable(PipelineError):
    """No broker answers, or there is no data at the place."""


def python_error_in(text: str) -> str:
    """Return the last error of Python in a text with stacks of Java, too; empty without one."""
    found = _OF_PYTHON.findall(text)
    return found[-1] if found else ""
