"""The batches that a log may hold: acknowledged exactly, sent and unanswered perhaps.

A batch is known by its bytes behind the leader epoch, which the broker does not change. Batches
that were refused by a rule are in no list: the log must not have them.
"""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEADER_BYTES: Final = 61
_FIXED: Final = 21
"""Base offset, size, leader epoch, magic and checksum: the body begins behind them."""
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_HEAD: Final = struct.Struct(">qiiBIhiqqqhii")
_IN_BODY: Final = struct.Struct(">hiqqqhi")
"""Attributes, last offset delta, both timestamps, producer id, epoch and sequence."""
_SEQUENCES: Final = 1 << 31
_base_of: Final = attrgetter("base")


class Wrong(AssertionError):  # noqa: N818  # a verdict
    """The broker has told or shown something that it must not."""


class Stored(NamedTuple):
    """A batch as a fetch returns it."""

    base: int
    last: int
    body: bytes
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    epoch: int
    sequence: int

    @property
    def is_control(self) -> bool:
        """Tell whether it is the marker of a transaction."""
        return bool(self.attributes & _CONTROL)


def read_batches(data: bytes) -> Iterator[Stored]:
    """Yield the whole batches of an answer; a part at its end is left out."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        head = _HEAD.unpack_from(data, at)
        base, size, attributes, delta = head[0], head[1], head[5], head[6]
        end = at + 12 + size
        if end > len(data):
            return
        body = bytes(memoryview(data)[at + _FIXED : end])
        yield Stored(base, base + delta, body, attributes, head[7], head[8], *head[9:12])
        at = end


class Sent(NamedTuple):
    """A batch that was sent. ``size`` is how many offsets it takes."""

    body: bytes
    size: int
    timestamps: tuple[int, ...]


class Numbers(NamedTuple):
    """The numbers by which a batch of a producer is known; ``last`` is a sequence."""

    producer_id: int
    epoch: int
    first: int
    last: int
    timestamp: int
    is_transactional: bool


def numbers_of(body: bytes) -> Numbers:
    """Return the numbers of a batch; the producer id is -1 in one of no producer."""
    attributes, delta, _, timestamp, producer, epoch, first = _IN_BODY.unpack_from(body)
    last = (first + delta) % _SEQUENCES
    return Numbers(producer, epoch, first, last, timestamp, bool(attributes & _TRANSACTIONAL))


class Kept(NamedTuple):
    """An acknowledged batch at its offset."""

    base: int
    sent: Sent

    @property
    def last(self) -> int:
        """Its last offset."""
        return self.base + self.sent.size - 1


def sent_of(frame: bytes | bytearray, timestamps: tuple[int, ...]) -> Sent:
    """Return what is remembered of a batch that is sent."""
    return Sent(bytes(frame[_FIXED:]), len(timestamps), timestamps)


class LogModel:
    """The batches of one partition's log.

    ``kept`` has what was acknowledged, by offset; ``perhaps`` what was sent without a sure answer,
    each as often as it was sent. ``again`` has what was sent more than once: a later life of the
    topic may get it, too. ``start`` is the log start offset that was acknowledged, and ``durable``
    the offset below which a power failure must lose nothing. ``holes`` are ranges of offsets that a
    power failure took from the end of a segment while it left the next segment.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        self.kept: list[Kept] = []
        self.perhaps: dict[bytes, list[Sent]] = {}
        self.again: dict[bytes, Sent] = {}
        self.unseen: dict[bytes, Sent] = {}
        self.start = 0
        self.may_start = 0
        self.deletions: list[int] = []
        self.stray = 0
        """A DeleteRecords up to here may have reached another life of the topic."""
        self.durable_start = 0
        self.durable = 0
        self.holes: set[tuple[int, int]] = set()

    @property
    def end(self) -> int:
        """The offset behind the last acknowledged batch."""
        return self.kept[-1].last + 1 if self.kept else self.start

    @property
    def is_durable_at_once(self) -> bool:
        """Tell whether an acknowledgement waits for an fsync."""
        return self.settings.get("flush.messages") == "1"

    def sending(self, sent: Sent) -> None:
        """Note that a batch is on its way: the log may have it from now on."""
        self.perhaps.setdefault(sent.body, []).append(sent)

    def sending_again(self, sent: Sent, *, is_known: bool) -> None:
        """Note that a batch is on its way once more; of a known producer the log has it once."""
        is_there = is_known and any(
            each.sent.body == sent.body and each.last >= self.may_start for each in self.kept
        )
        self.again[sent.body] = sent
        if not is_there and sent.body not in self.perhaps:
            self.sending(sent)

    def acknowledged_once(self, sent: Sent, base: int, end_before: int) -> None:
        """Note that a producer's batch is at an offset, perhaps since an earlier try.

        ``end_before`` is what `end` was at the first try.

        Raises:
            Wrong: The offset was used before, or the batch is at another one.
        """
        known = self.find(base)
        if known is None or known.base != base or known.sent.body != sent.body:
            self.acknowledged(sent, base, end_before)
        elif self.is_durable_at_once:
            self.durable = max(self.durable, base + sent.size)

    def refused(self, sent: Sent) -> None:
        """Note that a batch was refused by a rule, so that the log must not have it."""
        same = self.perhaps.get(sent.body)
        if not same:
            raise Wrong("a batch that is in the log already was taken, or refused, once more")
        same.pop()
        if not same:
            del self.perhaps[sent.body]

    def acknowledged(self, sent: Sent, base: int, end_before: int) -> None:
        """Note that a batch is at an offset.

        ``end_before`` is what `end` was when the batch was sent.

        Raises:
            Wrong: The offset was used before.
        """
        self.refused(sent)
        if base < end_before:
            raise Wrong(f"acknowledged at {base}, although {end_before} was the end before")
        self._keep(Kept(base, sent))
        if self.is_durable_at_once:
            self.durable = max(self.durable, base + sent.size)

    def _keep(self, new: Kept) -> None:
        at = bisect_right(self.kept, new.base, key=_base_of)
        for each in self.kept[max(0, at - 1) : at + 1]:
            if each.base <= new.last and new.base <= each.last:
                raise Wrong(f"offsets {new.base} to {new.last} were given away twice")
        insort(self.kept, new, key=_base_of)

    def find(self, offset: int) -> Kept | None:
        """Return the acknowledged batch that has an offset."""
        at = bisect_right(self.kept, offset, key=_base_of) - 1
        if at >= 0 and self.kept[at].last >= offset:
            return self.kept[at]
        return None

    def deleting(self, offset: int) -> None:
        """Note that DeleteRecords up to an offset is on its way: it may reach a later life, too."""
        self.may_start = max(self.may_start, offset)
        self.deletions.append(offset)

    def answered(self, offset: int) -> None:
        """Note that DeleteRecords up to an offset is on its way no more."""
        self.deletions.remove(offset)

    def strayed(self, offset: int) -> None:
        """Note that DeleteRecords to an offset has ended; another life may have taken it."""
        self.answered(offset)
        self.stray = max(self.stray, offset)

    def restarted(self) -> None:
        """Note that nothing is on its way, and that the log may start where it surely did."""
        for offset in tuple(self.deletions):
            self.strayed(offset)
        self.start = self.durable_start

    def deleted(self, start: int) -> None:
        """Note that the log starts at an offset, as DeleteRecords has told."""
        self.start = max(self.start, start)
        self.may_start = max(self.may_start, start)

    def flushed(self) -> None:
        """Note that a stop has made all durable."""
        self.durable = self.end
        self.durable_start = self.start

    def lost_power(self) -> None:
        """Note that segments below the start may be back, and the start with them.

        Their renames are not fsynced, and when they are gone no checkpoint has the start any more.
        """
        self.durable_start = 0

    def forget_perhaps(self) -> None:
        """Note that no batch comes into the log any more.

        One below the start may be in it unseen: a power failure may bring the old start back.
        """
        if self.start > self.durable_start:
            self.unseen |= {body: sent[0] for body, sent in self.perhaps.items()}
        self.perhaps.clear()

    def settle(self, stored: list[Stored], bounds: tuple[int, int], *, may_lose: bool) -> None:
        """Compare with all batches of the log, and keep the unanswered ones that it has.

        ``bounds`` are the log's start and its end. ``may_lose`` is true after a power failure,
        which may take what was not durable.

        Raises:
            Wrong: A batch is missing, doubled, altered, out of order, or nobody has sent it.
        """
        start, end = bounds
        self._settle_start(start, stored, may_lose=may_lose)
        self._settle_holes(stored, bounds, may_lose=may_lose)
        found: dict[int, Stored] = {}
        for each in stored:
            known = self.find(each.base)
            if known is not None and each.is_control and may_lose and known.base >= self.durable:
                continue  # the batch is lost, and a start has ended its transaction there
            found[each.base] = each
            if known is None:
                self._settle_new(each)
            elif known.base != each.base or known.sent.body != each.body:
                raise Wrong(f"the batch at {each.base} is not the one that was acknowledged")
        lost = [kept for kept in self.kept if kept.last >= start and kept.base not in found]
        for kept in lost:
            if not may_lose or kept.base < self.durable:
                raise Wrong(f"offsets {kept.base} to {kept.last} were acknowledged and are missing")
        gone = {kept.base for kept in lost}
        self.kept = [each for each in self.kept if each.base not in gone]
        if may_lose:
            self.start = self.may_start = start
            self.durable = self.end
        if self.end > end:
            raise Wrong(f"the log ends at {end}; {self.end} was acknowledged")

    def _settle_holes(
        self, stored: list[Stored], bounds: tuple[int, int], *, may_lose: bool
    ) -> None:
        """Look for offsets without a batch: only a power failure leaves some."""
        start, end = bounds
        befores = [start, *(each.last + 1 for each in stored)]
        nexts = [*(each.base for each in stored), end]
        holes = {(last, base) for last, base in zip(befores, nexts, strict=True) if base > last}
        for hole in sorted(holes):
            if not may_lose and not any(a <= hole[0] and hole[1] <= b for a, b in self.holes):
                raise Wrong(f"nothing at {hole[0]} to {hole[1] - 1}")
        if any(base < last for last, base in zip(befores[1:], nexts[1:], strict=True)):
            raise Wrong("a batch begins before the one in front of it ends")
        self.holes = holes

    def _settle_start(self, start: int, stored: list[Stored], *, may_lose: bool) -> None:
        if start > self.may_start:
            raise Wrong(f"the log starts at {start}; nobody has deleted up to there")
        if start < (self.durable_start if may_lose else self.start):
            raise Wrong(f"the log starts at {start}; it was deleted up to {self.start}")
        if stored and stored[0].last < start:
            raise Wrong(f"the first batch ends at {stored[0].last}, below the start {start}")
        self.start = max(self.start, start)
        self.may_start = max(self.may_start, start)

    def _settle_new(self, found: Stored) -> None:
        if found.is_control:
            return
        same = self.perhaps.get(found.body)
        if not same and found.body in self.unseen:
            same = [self.unseen.pop(found.body)]
            self.perhaps[found.body] = same
        if not same:
            raise Wrong(f"nobody has sent the batch at {found.base}, or it was refused")
        sent = same.pop()
        if not same:
            del self.perhaps[found.body]
        self._keep(Kept(found.base, sent))
