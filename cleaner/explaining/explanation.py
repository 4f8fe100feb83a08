"""The answer to "why is this partition not being compacted", as a value and as JSON."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import starmap
from typing import Any, Final, NamedTuple

from siltstone.cleaner.selection import CleanableLog
from siltstone.config.describe import Place
from siltstone.storage.topic_partition import TopicPartition

_WITH_FOUR_DIGITS: Final = range(-62_135_596_800_000, 253_402_300_800_000)  # years 1 to 9999, in ms


class Rule(StrEnum):
    """The rules that decide whether a partition is cleaned next."""

    NOT_COMPACTED = "policy-not-compact"
    CLEANER_OFF = "cleaner-off"
    OFFLINE = "directory-offline"
    PAUSED = "paused"
    IN_PROGRESS = "in-progress"
    ABORTING = "aborting"
    FAILED = "failed"
    REQUESTED = "requested"
    MAP_TOO_SMALL = "map-too-small"
    MAX_LAG = "max-lag"
    RATIO_ABOVE = "ratio-above"
    EMPTY = "empty"
    ACTIVE_ONLY = "active-segment-only"
    OPEN_TRANSACTION = "open-transaction"
    YOUNG_SEGMENT = "young-segment"
    RATIO_BELOW = "ratio-below"
    TOMBSTONES_WAIT = "tombstones-wait"
    ALL_CLEAN = "all-clean"


class SettingUsed(NamedTuple):
    """The setting that decides, its value, and where the value comes from."""

    name: str
    value: str
    place: Place

    def __str__(self) -> str:
        where = self.place.where
        if self.place.name != self.name:
            where = f"{self.place.name}, {where}"
        return f"{self.name}={self.value} ({where})"


class OpenTransaction(NamedTuple):
    """A transaction that has neither been committed nor aborted."""

    producer_id: int
    first_offset: int

    @classmethod
    def first_of(cls, opened: Mapping[int, int]) -> "OpenTransaction | None":
        """Return the one that began first of a log's; ``opened`` has first offsets by producer."""
        return next(starmap(cls, opened.items()), None)


class Finding(NamedTuple):
    """The rule that decides, a sentence about it, and the values that the rule compares."""

    rule: Rule
    sentence: str
    setting: SettingUsed | None = None
    segment: int | None = None  # base offset
    transaction: OpenTransaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer for one partition.

    Offsets and bytes are those of its `CleanableLog`, or None if the topic is not compacted.
    ``is_eligible`` says that a free thread takes the log, by itself or because of a request.
    ``next_eligible_ms`` is the time from which the cleaner may take the log by itself if only time
    passes. It is now or in the past if the log is eligible already, and None for never.
    """

    topic_partition: TopicPartition
    finding: Finding
    is_eligible: bool
    cleanable: CleanableLog | None
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    next_eligible_ms: int | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, the decision first."""
        finding = self.finding
        answer: dict[str, Any] = {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "rule": finding.rule.value,
            "eligible": self.is_eligible,
            "because": finding.sentence,
            "next_eligible_ms": self.next_eligible_ms,
        }
        if finding.setting is not None:
            answer["setting"] = {
                "name": finding.setting.name,
                "value": finding.setting.value,
                "source": finding.setting.place.source.name,
                "set_as": finding.setting.place.name,
                "where": finding.setting.place.where,
            }
        if finding.segment is not None:
            answer["segment_base_offset"] = finding.segment
        if finding.transaction is not None:
            answer["transaction"] = finding.transaction._asdict()
        answer |= {
            "log_start_offset": self.log_start_offset,
            "last_stable_offset": self.last_stable_offset,
            "log_end_offset": self.log_end_offset,
        }
        if self.cleanable is not None:
            answer |= {
                "first_dirty_offset": self.cleanable.first_dirty_offset,
                "first_uncleanable_offset": self.cleanable.first_uncleanable_offset,
                "clean_bytes": self.cleanable.clean_bytes,
                "cleanable_bytes": self.cleanable.cleanable_bytes,
                "uncleanable_bytes": self.cleanable.uncleanable_bytes,
                "dirty_ratio": round(self.cleanable.ratio, 6),
                "min_cleanable_dirty_ratio": self.cleanable.threshold,
                "max_lag_exceeded_ms": self.cleanable.delay_ms,
            }
        return answer


def moment(time_ms: int) -> str:
    """Return a time for a person: ``2026-11-21 16:00:59 UTC``."""
    if time_ms not in _WITH_FOUR_DIGITS:
        return f"{time_ms} ms"  # beyond the years of a datetime, as a record's timestamp may be
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_ms // 1000))
