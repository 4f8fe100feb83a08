"""Advice on each reason why a partition is not compacted, and which reasons are faults.

The reasons are the rules of `siltstone.cleaner.explaining`, and those of a folder at rest.
"""

from collections.abc import Iterable
from typing import Any, Final

ADVICE: Final = {
    "policy-not-compact": "nothing, or set cleanup.policy=compact on the topic",
    "cleaner-off": "set log.cleaner.enable=true and log.cleaner.threads to 1 or more, and restart",
    "directory-offline": "look at the disk of the log directory, then restart the broker",
    "unreadable": "look at its folder with siltstone dump-log",
    "paused": "wait: it goes on when the move or the deletion is done",
    "in-progress": "wait",
    "aborting": "wait",
    "failed": "remove the cause that is named, then siltstone clean TOPIC",
    "requested": "wait",
    "map-too-small": "raise log.cleaner.dedupe.buffer.size",
    "max-lag": "nothing: it is cleaned next",
    "ratio-above": "nothing: it is cleaned next",
    "empty": "nothing",
    "active-segment-only": "set segment.ms, or siltstone clean --roll TOPIC",
    "open-transaction": "end it by kafka-transactions.sh abort, or wait for its timeout",
    "young-segment": "wait, lower min.compaction.lag.ms, or siltstone clean --force TOPIC",
    "ratio-below": "wait, lower min.cleanable.dirty.ratio, or siltstone clean TOPIC",
    "tombstones-wait": "siltstone clean TOPIC",
    "all-clean": "nothing",
}
FAILED: Final = frozenset({"failed", "directory-offline", "unreadable"})
DONE: Final = frozenset({"policy-not-compact", "empty", "all-clean"})
"""Nothing is owed to these."""


def advise(facts: dict[str, Any]) -> str:
    """Return what to do about one partition."""
    return ADVICE.get(facts["rule"], "").replace("TOPIC", facts["topic"])


def is_failed(facts: dict[str, Any]) -> bool:
    """Tell whether a fault keeps the partition from being cleaned, so that somebody must look."""
    return facts["rule"] in FAILED


def is_waiting(facts: dict[str, Any]) -> bool:
    """Tell whether a partition has something to clean but is not eligible yet."""
    return not facts["eligible"] and facts["rule"] not in FAILED | DONE | {"in-progress"}


def choose(
    partitions: Iterable[dict[str, Any]], *, waiting: bool, failed: bool
) -> list[dict[str, Any]]:
    """Return the partitions that wait, those that failed, or both; all if neither is asked for."""
    if not waiting and not failed:
        return list(partitions)
    return [
        each
        for each in partitions
        if (waiting and is_waiting(each)) or (failed and is_failed(each))
    ]
