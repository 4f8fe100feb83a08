"""The results of a pass: the records and bytes that it read, wrote and dropped, and its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.protocol.core.constants import FULL
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from siltstone.protocol.core import compaction  # loaded by the first pass

_NO_HORIZON: Final = (1 << 63) - 1


class Reason(StrEnum):
    """Why a record is dropped; the order is that of `protocol.core.constants.BY_SUPERSEDED`."""

    SUPERSEDED = "superseded"
    TOMBSTONE = "tombstone_expired"
    MARKER = "marker"
    ABORTED = "aborted"
    NULL_KEY = "null_key"


class Dropped(NamedTuple):
    """How many records were dropped, and their bytes.

    The bytes are those of the records, without compression and batch headers. A batch that was not
    opened counts with its size on the disk.
    """

    records: int
    bytes: int


class FileFacts(NamedTuple):
    """A ``.log`` that a pass read or wrote; the name is its final one.

    ``crc`` is the CRC-32C of the whole file, ``next_offset`` is one past its last offset.
    """

    name: str
    base_offset: int
    next_offset: int
    size: int
    crc: int


class GroupFacts(NamedTuple):
    """The input segments of a group and the output segments that replace them."""

    inputs: tuple[FileFacts, ...]
    outputs: tuple[FileFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """One pass over one log, or the prediction of a pass. Offsets mean the same as in `LogToClean`.

    ``end_offset`` is the new first dirty offset; ``is_map_full`` says that the map was full there.
    ``map_bytes_read``, ``map_records_read`` and ``map_batches_read`` count the first reading,
    ``bytes_read`` the second. ``started_ms`` is the pass's "now", with which horizons are compared.
    ``next_horizon_ms`` is the smallest horizon that was written, None without one.
    """

    topic_partition: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    end_offset: int
    started_ms: int
    is_map_full: bool
    map_keys: int
    map_slots: int
    map_bytes: int
    map_bytes_read: int
    map_records_read: int
    map_batches_read: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_written: int
    batches_read: int
    batches_written: int
    batches_rebuilt: int
    batches_emptied: int
    horizons_set: int
    horizons_reached: int
    next_horizon_ms: int | None = None
    dropped: Mapping[Reason, Dropped]
    key_digest: str
    groups: tuple[GroupFacts, ...]
    map_seconds: float = 0.0
    copy_seconds: float = 0.0
    swap_seconds: float = 0.0
    throttle_seconds: float = 0.0

    @property
    def map_utilization(self) -> float:
        """Return the share of the map's slots that is in use, 0 to 1."""
        return self.map_keys / self.map_slots

    @property
    def invalid_records(self) -> int:
        """Return how many records were dropped because they have no key."""
        return self.dropped[Reason.NULL_KEY].records

    @property
    def effect(self) -> dict[str, Any]:
        """Return the facts that a pass and its prediction must have in common.

        These are all facts except durations and the checksums of new files: new files contain
        horizons.
        """
        left_out = {
            "map_seconds", "copy_seconds", "swap_seconds", "throttle_seconds", "started_ms",
            "next_horizon_ms",
        }  # fmt: skip
        effect = {each.name: getattr(self, each.name) for each in fields(self)}
        effect["groups"] = tuple(
            (group.inputs, tuple(output._replace(crc=0) for output in group.outputs))
            for group in self.groups
        )
        return {name: value for name, value in effect.items() if name not in left_out}

    @property
    def effect_at_another_time(self) -> dict[str, Any]:
        """Return the part of the effect that does not depend on when the pass runs.

        A batch that gets a delete horizon stores its records' timestamps as deltas from the
        horizon, so the size of the batch depends on the moment of the pass.
        """
        effect = self.effect
        if self.horizons_set:
            del effect["bytes_written"]
            effect["groups"] = tuple(
                (group.inputs, tuple(output._replace(crc=0, size=0) for output in group.outputs))
                for group in self.groups
            )
        return effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The result of a dry run: the next pass, and how many passes the dirty section needs.

    ``bytes_after`` is the size of the segments below the first uncleanable offset after that pass.
    """

    result: PassResult
    passes: int
    bytes_after: int

    def is_kept_by(self, result: PassResult) -> bool:
        """Tell whether a pass over the same bytes did what was predicted."""
        return self.result.effect_at_another_time == result.effect_at_another_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a pass: its phase (map, copy, swap), bytes read so far and bytes to read."""

    topic_partition: TopicPartition
    phase: str
    bytes_done: int
    bytes_total: int


def result_of(  # noqa: PLR0913  # all that a pass knows besides what the core has counted
    log: LogToClean,
    offset_map: "compaction.OffsetMap",
    mapped: "compaction.MapBuilder",
    copied: "compaction.RecordFilter",
    groups: Sequence[GroupFacts],
    *,
    started_ms: int,
    map_bytes_read: int,
    bytes_read: int,
    times: Mapping[str, float],
    throttle_seconds: float,
) -> PassResult:
    """Return the result of a pass, from the core's counts."""
    return PassResult(
        topic_partition=log.topic_partition,
        first_dirty_offset=log.first_dirty_offset,
        first_uncleanable_offset=log.first_uncleanable_offset,
        end_offset=mapped.latest + 1,
        started_ms=started_ms,
        is_map_full=mapped.status == FULL,
        map_keys=offset_map.keys,
        map_slots=offset_map.max_slots,
        map_bytes=offset_map.memory_bytes,
        map_bytes_read=map_bytes_read,
        map_records_read=mapped.records,
        map_batches_read=mapped.batches,
        bytes_read=bytes_read,
        bytes_written=sum(output.size for group in groups for output in group.outputs),
        records_read=copied.records_read,
        records_written=copied.records_written,
        batches_read=copied.batches_read,
        batches_written=copied.batches_written,
        batches_rebuilt=copied.batches_rebuilt,
        batches_emptied=copied.batches_emptied,
        horizons_set=copied.horizons_set,
        horizons_reached=copied.horizons_reached,
        next_horizon_ms=None if copied.next_horizon == _NO_HORIZON else copied.next_horizon,
        dropped={
            reason: Dropped(*counts) for reason, counts in zip(Reason, copied.dropped, strict=True)
        },
        key_digest=text_of(copied.key_digest),
        groups=tuple(groups),
        map_seconds=times["map"],
        copy_seconds=times["copy"],
        swap_seconds=times["swap"],
        throttle_seconds=throttle_seconds,
    )


def text_of(digest: int) -> str:
    """Return a digest of keys as receipts write it: 32 hexadecimal digits."""
    return f"{digest:032x}"
