"""The sentence that a person reads when a job fails, whatever it came through."""

from traceback import format_exception_only

import pytest

from siltstone.pipeline.command.cli import sentence_of
from siltstone.pipeline.errors import PipelineError, Refused, SnapshotExpired
from siltstone.pipeline.sinks.staging import SinkFailed

SENTENCE = "the disk of /tables is full; make room and run the job again"


@pytest.mark.parametrize("kind", [SinkFailed, SnapshotExpired, Refused])
def test_a_fault_of_a_worker_is_its_sentence(kind: type[PipelineError]) -> None:
    """Spark hands on the text of a traceback, in which a class has its module's name."""
    (last,) = format_exception_only(kind(SENTENCE))
    through_spark = f"[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n{last}"

    assert sentence_of(RuntimeError(f"{through_spark}\tat org.apache.spark")) == SENTENCE


def test_another_fault_is_named() -> None:
    """Of what is not ours the last error of Python is told, and how to see more."""
    error = RuntimeError("Traceback (most recent call last):\nValueError: no such column\n")

    assert sentence_of(error).startswith("the job failed (ValueError: no such column); ")
