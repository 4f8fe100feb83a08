"""The records that a log may hold that the broker shortens by compaction, by age or by size.

For each key the last one remains for certain; in a log that is not compacted each record is.
A record is known by its timestamp, which no other has: a pass of the cleaner writes batches again,
but each record stays at its offset with its bytes, or goes. If the broker stamps records, the
timestamp that the client has sent stands in the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.record import iterate_records
from tests.simulator.model.log import HEADER_BYTES, Wrong
from tests.simulator.model.settings import SettingsModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_OVERHEAD: Final = 12
"""Base offset and size, in front of what the size counts."""
_DAY_MS: Final = 86_400_000
_LIMITS: Final = {"retention.ms": 7 * _DAY_MS, "retention.bytes": -1}


class Row(NamedTuple):
    """A record that was sent; ``value`` is None in a tombstone."""

    key: bytes
    value: bytes | None
    timestamp: int
    sent_ms: int
    size: int = 0
    """The bytes of the batch, by its last record."""


class Frame(NamedTuple):
    """A batch as a fetch returns it; it stands for its offsets, whatever records are left."""

    base: int
    last: int
    data: bytes
    records: tuple[tuple[int, bytes | None, bytes | None, int], ...]
    """Offset, key, value and timestamp of each."""


class Read(NamedTuple):
    """All of a log, as it was read from its start to its end."""

    start: int
    end: int
    frames: list[Frame]


def read_frames(data: bytes) -> Iterator[Frame]:
    """Yield the whole batches of an answer with their records; a part at its end is left out.

    Raises:
        Wrong: The records of a batch cannot be read.
    """
    at = 0
    while at + HEADER_BYTES <= len(data):
        base = int.from_bytes(data[at : at + 8], "big")
        end = at + _OVERHEAD + int.from_bytes(data[at + 8 : at + _OVERHEAD], "big")
        if end > len(data):
            return
        whole = data[at:end]
        last = base + int.from_bytes(whole[23:27], "big")
        try:
            records = list(iterate_records(whole))
        except CorruptMessage as error:
            raise Wrong(f"the batch at {base} cannot be read: {error}") from error
        rows = tuple((row.offset, row.key, row.value, row.timestamp) for row in records)
        yield Frame(base, last, whole, rows)
        at = end


class CompactedLog:
    """The records of one compacted partition.

    ``kept`` has what was acknowledged or seen, by offset. What was sent without a sure answer may
    be in it or not. ``durable`` is the offset below which a power failure must lose nothing.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.kept: dict[int, Row] = {}
        self.start = 0
        self.end = 0
        self.durable = 0
        self._perhaps: dict[int, tuple[Sequence[Row], int]] = {}
        # Those of which retention may have deleted some before they were seen.
        self._unseen: dict[int, tuple[Sequence[Row], int]] = {}
        self._gone: set[int] = set()
        self._deleted: dict[int, Row] = {}
        """Records below the start, in segments that a power failure may bring back."""
        self._back: dict[int, Row] = {}
        self._is_durable_at_once = settings.get("flush.messages") == "1"
        self._tombstones_ms = int(settings.get("delete.retention.ms", _DAY_MS))
        self._lag_ms = int(settings.get("min.compaction.lag.ms", 0))
        self._dirty_ratio = float(settings.get("min.cleanable.dirty.ratio", 1))
        self.expires = "delete" in settings["cleanup.policy"]
        self._is_compacted = "compact" in settings["cleanup.policy"]
        self.is_stamped = settings.get("message.timestamp.type") == "LogAppendTime"
        self.settings = SettingsModel(settings, 1)
        self._limits: dict[str, list[int]] = {key: [] for key in _LIMITS}
        """The limits that may have been in force since the last look at all records."""
        self.note_limits()

    def note_limits(self) -> None:
        """Note that limits may have come into force by now."""
        for key, default in _LIMITS.items():
            values = self.settings.may_be(key)
            self._limits[key] += [default if each is None else int(each) for each in values]

    def sending(self, rows: Sequence[Row]) -> None:
        """Note that a batch is on its way."""
        for at, row in enumerate(rows):
            self._perhaps[row.timestamp] = rows, at

    def refused(self, rows: Sequence[Row]) -> None:
        """Note that a batch was refused by a rule."""
        for row in rows:
            del self._perhaps[row.timestamp]

    def acknowledged(
        self, rows: Sequence[Row], base: int, end_before: int, timestamp: int = -1
    ) -> None:
        """Note that a batch is at an offset; ``end_before`` was the end when it was sent.

        ``timestamp`` is that of the broker, if it stamps records.

        Raises:
            Wrong: The offset was used before.
        """
        if base < end_before:
            raise Wrong(f"acknowledged at {base}, although {end_before} was the end before")
        if self.is_stamped != (timestamp >= rows[0].sent_ms):
            raise Wrong(f"acknowledged with time {timestamp}")
        self._keep(rows, base, timestamp)
        if self._is_durable_at_once:
            self.durable = max(self.durable, base + len(rows))

    def _keep(self, rows: Sequence[Row], base: int, timestamp: int) -> None:
        self.refused(rows)
        for offset, row in enumerate(rows, base):
            if offset in self.kept:
                raise Wrong(f"offset {offset} was given away twice")
            self.kept[offset] = row._replace(timestamp=timestamp) if self.is_stamped else row
        self.end = max(self.end, base + len(rows))

    def flushed(self) -> None:
        """Note that a stop has made all durable."""
        self.durable = self.end

    def lost_power(self) -> None:
        """Note that segments may be back whose deletion was not on the disk."""
        self._back = self._deleted.copy()
        self._perhaps |= self._unseen

    def forget_perhaps(self) -> None:
        """Note that what is not in the log now does not come any more, but by a power failure."""
        if self.expires:
            self._unseen |= self._perhaps
        self._perhaps.clear()
        self._back.clear()

    def check(self, frames: Sequence[Frame], offset: int) -> None:
        """Check what a fetch from an offset has returned, while others write and compact.

        Raises:
            Wrong: Nobody has sent a record, it is another one, out of order, or came back.
        """
        if frames and frames[0].last < offset:
            raise Wrong(f"a fetch from {offset} begins with a batch that ends at {frames[0].last}")
        before = -1
        for found in (each for frame in frames for each in frame.records):
            at, key, value, timestamp = found
            if at <= before:
                raise Wrong(f"offset {at} follows {before}")
            before = at
            row = self.kept.get(at) or self._back.get(at)
            sent = self._sent_time(value, timestamp)
            if (
                row is None
                and sent in self._perhaps
                and (at < self.start or sent not in self._unseen)
            ):
                rows, place = self._perhaps[sent]
                row = rows[place]
                if self.is_stamped and timestamp >= row.sent_ms:
                    row = row._replace(timestamp=timestamp)
            if row is None:
                why = "came back" if timestamp in self._gone else "was sent by nobody or refused"
                raise Wrong(f"the record at {at} {why}")
            if (row.key, row.value, row.timestamp) != (key, value, timestamp):
                raise Wrong(f"the record at {at} is not the one that was sent")

    def _sent_time(self, value: bytes | None, timestamp: int) -> int:
        return int((value or b"").partition(b".")[0]) if self.is_stamped else timestamp

    def settle(self, read: Read, *, may_lose: bool, now_ms: int) -> None:
        """Compare with all that the log has, and know from then on that the rest is gone.

        ``may_lose`` is true after a power failure, which may take what was not durable.

        Raises:
            Wrong: A record is missing that must remain, or one remains that must not.
        """
        self.check(read.frames, read.start)
        for frame in read.frames:
            for offset, _, value, timestamp in frame.records:
                if offset in self._back:
                    self.kept[offset] = self._back[offset]
                elif offset not in self.kept:
                    rows, at = self._perhaps[self._sent_time(value, timestamp)]
                    self._keep(rows, offset - at, timestamp)
        self._settle_bounds(read, may_lose=may_lose)
        there = {each[0] for frame in read.frames for each in frame.records}
        keys: dict[bytes | int, list[int]] = {}
        for offset in sorted(self.kept):
            key = self.kept[offset].key if self._is_compacted else offset
            keys.setdefault(key, []).append(offset)
        unsure = {rows[at].key for rows, at in self._perhaps.values()}
        for key, offsets in keys.items():
            self._settle_last(offsets, read.start, there, may_lose=may_lose, now_ms=now_ms)
            if self._lag_ms and key not in unsure and not may_lose:
                self._settle_young(offsets, there, read.start, now_ms)
        last = max(self.kept, default=-1)
        if last not in there and last >= read.start and not may_lose and not unsure:
            raise Wrong(f"{last} was the last record and is missing")
        self._gone.update(row.timestamp for at, row in self.kept.items() if at not in there)
        deleted = {at: row for at, row in self.kept.items() if at < read.start}
        self._deleted = {
            at: row for at, row in (self._deleted | deleted).items() if at not in there
        }
        self.kept = {at: row for at, row in self.kept.items() if at in there}
        if may_lose:
            self.durable = self.end
        self._limits = {key: [] for key in _LIMITS}
        self.note_limits()

    def _settle_bounds(self, read: Read, *, may_lose: bool) -> None:
        if read.end < (self.durable if may_lose else self.end):
            raise Wrong(f"the log ends at {read.end}, not at {self.end}")
        if read.start and not self.expires:
            raise Wrong(f"the log starts at {read.start}; nobody has deleted up to there")
        if read.start < self.start and not may_lose:
            raise Wrong(f"the log starts at {read.start}, although it started at {self.start}")
        self.start, self.end = read.start, read.end

    def _settle_last(
        self, offsets: list[int], start: int, there: set[int], *, may_lose: bool, now_ms: int
    ) -> None:
        """Compare the last record of a key, and what is left before it."""
        last = offsets[-1]
        row = self.kept[last]
        if last in there or (may_lose and last >= self.durable):
            return
        if last < start and self._may_be_over(last, now_ms):
            return
        hidden = [rows[at] for rows, at in self._perhaps.values() if rows[at].key == row.key]
        is_over = any(self._may_expire(each, now_ms) for each in (row, *hidden))
        what = "tombstone" if row.value is None else "last record"
        if not is_over:
            raise Wrong(f"{last} was the {what} of its key and is missing")
        older = [each for each in offsets if each in there]
        if older:
            raise Wrong(f"{older[-1]} remains, although the tombstone at {last} is gone")

    def _may_be_over(self, offset: int, now_ms: int) -> bool:
        """Tell whether a record is too old by a limit, or enough bytes follow it."""
        ages, sizes = ([each for each in self._limits[key] if each >= 0] for key in _LIMITS)
        if ages and now_ms - self.kept[offset].timestamp > min(ages):
            return True
        behind = sum(row.size for at, row in self.kept.items() if at > offset)
        behind += sum(rows[at].size for rows, at in self._perhaps.values())
        return bool(sizes) and behind >= min(sizes)

    def check_segments(self, start: int, sizes: Mapping[int, int], checked_ms: int) -> None:
        """Compare the start with the segments on the disk, by their first offsets.

        ``checked_ms`` is a moment behind which the broker has looked for what is over.

        Raises:
            Wrong: The start is inside a segment, or a segment remains that must be gone.
        """
        if start not in sizes:
            raise Wrong(f"the log starts at {start}, inside a segment")
        if any(len(set(each)) > 1 for each in self._limits.values()):
            return
        age, size = (self._limits[key][0] for key in _LIMITS)
        behind = min((each for each in sizes if each > start), default=self.end)
        first = [row.timestamp for at, row in self.kept.items() if start <= at < behind]
        if first and 0 <= age < checked_ms - max(first):
            raise Wrong(f"the segment at {start} is older than retention.ms and remains")
        rest = sum(sizes[each] for each in sizes if each > start)
        if first and 0 <= size <= rest:
            raise Wrong(f"the segment at {start} is over retention.bytes and remains")

    def check_clean(self, frames: Sequence[Frame], sizes: Mapping[int, int]) -> None:
        """See that below the active segment no key comes twice, if any record makes it dirty.

        ``sizes`` are those of the segments on the disk, by their first offsets.

        Raises:
            Wrong: A record remains that a later one of its key replaces.
        """
        least = self._dirty_ratio * sum(sizes.values())
        if not self._is_compacted or self._lag_ms or least >= HEADER_BYTES:
            return
        active, found = max(sizes, default=0), dict[bytes | None, int]()
        for offset, key, *_ in (each for frame in frames for each in frame.records):
            if offset < active and key in found:
                raise Wrong(f"{found[key]} remains, although {offset} has replaced it")
            found[key] = offset

    def _may_expire(self, row: Row, now_ms: int) -> bool:
        """Tell whether a record is a tombstone that may be gone, though none follows it."""
        return row.value is None and now_ms >= row.sent_ms + self._tombstones_ms

    def _settle_young(self, offsets: list[int], there: set[int], start: int, now_ms: int) -> None:
        """See that nothing went before the record behind it was old enough to be compacted."""
        for place, offset in enumerate(offsets[:-1]):
            is_gone = offset not in there and offset >= start
            if is_gone and not self._may_expire(self.kept[offset], now_ms):
                behind = min(self.kept[each].timestamp for each in offsets[place + 1 :])
                if behind > now_ms - self._lag_ms:
                    raise Wrong(f"{offset} was compacted away within min.compaction.lag.ms")
