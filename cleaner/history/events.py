"""The lines of the cleaner's history: facts of a pass, as plain JSON values.

    {"event": "pass", "topic": "orders", "partition": 0, "started_ms": …, "outcome": "cleaned", …,
     "receipt": {"groups": [{"inputs": [file, …], "outputs": [file, …]}, …], "key_digest": "…"}}

Each file is listed with its size and CRC-32C. The digest covers the set of keys that survived.
"""

from typing import Any, NamedTuple
from uuid import UUID

from siltstone.cleaner.one_pass.stats import FileFacts, PassResult, Prediction
from siltstone.storage.topic_partition import TopicPartition


class Span(NamedTuple):
    """A partition, and when the work on it began and ended, in ms since the epoch.

    The topic's id distinguishes the topic from a deleted topic of the same name.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    started_ms: int
    ended_ms: int


def begin_event(span: Span) -> dict[str, Any]:
    """Return the event of a pass that begins; if no later event ends it, it was interrupted.

    This event is in the file only, not in memory. It tells ``siltstone verify`` that files may have
    changed without a receipt.
    """
    return {**_head(span, "begun"), "event": "begin"}


def pass_event(
    span: Span,
    result: PassResult,
    *,
    seconds: float,
    is_requested: bool,
    prediction: Prediction | None,
) -> dict[str, Any]:
    """Return the event of a pass that succeeded, with its receipt."""
    event: dict[str, Any] = {
        **_head(span._replace(started_ms=result.started_ms), "cleaned"),
        "requested": is_requested,
        "first_dirty_offset": result.first_dirty_offset,
        "first_uncleanable_offset": result.first_uncleanable_offset,
        "end_offset": result.end_offset,
        "segments_in": sum(len(group.inputs) for group in result.groups),
        "segments_out": sum(len(group.outputs) for group in result.groups),
        **figures_of(result),
        "seconds": round(seconds, 6),
        "map_seconds": round(result.map_seconds, 6),
        "copy_seconds": round(result.copy_seconds, 6),
        "swap_seconds": round(result.swap_seconds, 6),
        "throttle_seconds": round(result.throttle_seconds, 6),
    }
    if prediction is not None:
        event["prediction_held"] = prediction.is_kept_by(result)
    event["receipt"] = {
        "groups": [
            {
                "inputs": [_file(each) for each in group.inputs],
                "outputs": [_file(each) for each in group.outputs],
            }
            for group in result.groups
        ],
        "key_digest": result.key_digest,
    }
    return event


def failure_event(span: Span, error: BaseException) -> dict[str, Any]:
    """Return the event of a pass that failed."""
    return {**_head(span, "failed"), "cause": type(error).__name__, "reason": str(error)}


def abort_event(span: Span, reason: str) -> dict[str, Any]:
    """Return the event of a pass that was aborted."""
    return {**_head(span, "aborted"), "reason": reason}


def figures_of(result: PassResult) -> dict[str, Any]:
    """Return the effects of a pass, or of a predicted pass, on records and bytes."""
    return {
        "bytes_in": result.bytes_read,
        "bytes_out": result.bytes_written,
        "records_in": result.records_read,
        "records_out": result.records_written,
        "records_dropped": {
            reason.value: dropped.records for reason, dropped in result.dropped.items()
        },
        "bytes_dropped": {
            reason.value: dropped.bytes for reason, dropped in result.dropped.items()
        },
        "horizons_set": result.horizons_set,
        "horizons_reached": result.horizons_reached,
        "next_horizon_ms": result.next_horizon_ms,
        "map_keys": result.map_keys,
        "map_slots": result.map_slots,
        "map_bytes": result.map_bytes,
        "map_full": result.is_map_full,
    }


def _head(span: Span, outcome: str) -> dict[str, Any]:
    return {
        "event": "pass",
        "topic": span.topic_partition.topic,
        "partition": span.topic_partition.partition,
        "topic_id": str(span.topic_id),
        "started_ms": span.started_ms,
        "ended_ms": span.ended_ms,
        "outcome": outcome,
    }


def _file(facts: FileFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "size": facts.size,
        "crc32c": f"{facts.crc:08x}",
        "next_offset": facts.next_offset,
    }
