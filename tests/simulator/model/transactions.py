"""The transactions of a history: how each may have ended, and how a log says that it did.

The markers of a log decide alone what a reader of committed records sees. The model compares them
with the answers that the producers got.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.protocol.records.record import iterate_records
from tests.simulator.model.groups import is_certain
from tests.simulator.model.log import Wrong, numbers_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from tests.simulator.model.groups import Register, Write
    from tests.simulator.model.log import LogModel, Stored
    from tests.simulator.model.producers import Numbered
    from tests.simulator.model.topics import TopicModel

    Seen = tuple[int, bytes | None, bytes | None, int]

OPEN, COMMIT, ABORT = "open", "commit", "abort"
_KIND: Final = struct.Struct(">40x7xh")
"""The kind of a marker behind the rest of the header and the head of its record."""


class Transaction:
    """A transaction of a producer. ``may`` has the ends that it may have; open is one of them.

    ``batches`` are those that were acknowledged, each with its log, ``offsets`` those of groups
    that were sent. ``is_torn`` tells that a power failure may have left some of its markers.
    """

    def __init__(self, name: str, numbers: tuple[int, int], started_ms: int, ends_ms: int) -> None:
        self.name = name
        self.numbers = numbers
        self.started_ms = started_ms
        self.last_ms = started_ms
        self.ends_ms = ends_ms
        self.may = [OPEN]
        self.partitions: dict[tuple[str, int], bool] = {}
        self.batches: list[tuple[LogModel, Numbered]] = []
        self.offsets: list[tuple[TopicModel, Register, Write]] = []
        self.is_torn = False

    def may_end(self, *ends: str) -> None:
        """Note further ends that are possible while it was not known to have ended."""
        if OPEN in self.may:
            self.may += [each for each in ends if each not in self.may]
            if COMMIT in ends:
                self._show_offsets(is_open=True)

    def _show_offsets(self, *, is_open: bool) -> None:
        for _, _, write in self.offsets:
            write.is_hidden, write.is_open = False, is_open

    def looked_at(self, now_ms: int) -> None:
        """Note that time may have ended it."""
        if now_ms > self.ends_ms:
            self.may_end(ABORT)

    def lost_power(self) -> None:
        """Note that any part of it may be gone, and that its end may have come."""
        self.is_torn = True
        self._show_offsets(is_open=False)

    def ended(self, end: str) -> None:
        """Note an end that an answer has told.

        Raises:
            Wrong: It is not possible.
        """
        if end not in self.may and not self.is_torn:
            raise Wrong(f"{self} has ended by {end}; possible: {self.may}")
        self.may = [end]
        for _, _, write in self.offsets:
            write.is_open = False
            if end == ABORT:
                write.aborted()

    def took_effect(self) -> None:
        """Note that nothing of its end waits for the disk: offsets that it committed hold."""
        for topic, register, write in self.offsets if self.may == [COMMIT] else ():
            if write.end is not None and is_certain(topic, register.life):
                write.is_sure = True

    def is_over(self) -> None:
        """Note that it is not open any more."""
        self.may = [each for each in self.may if each != OPEN] or [ABORT]
        if self.may == [ABORT] and not self.is_torn:
            self.ended(ABORT)

    def __str__(self) -> str:
        return f"the transaction of {self.name}, {self.numbers}"


class Aborted(NamedTuple):
    """An aborted transaction of a log, from its first record to its marker."""

    producer_id: int
    first: int
    last: int


class View:
    """The contents of a log as its markers decide.

    Where the disk has failed, it is not ``is_exact``: a marker is in the log, and what it ends
    stays open until the coordinator has written it again.
    """

    def __init__(
        self, start: int, end: int, stored: Sequence[Stored], *, is_exact: bool = True
    ) -> None:
        self.is_exact = is_exact
        self.start, self.end = start, end
        self.ends: dict[int, str] = {}
        self.aborted: list[Aborted] = []
        self.open: dict[int, int] = {}
        self.producers: dict[int, tuple[int, int, int]] = {}
        self._stored = [each for each in stored if each.last >= start]
        waiting: dict[int, list[int]] = {}
        for each in self._stored:
            if each.producer_id < 0:
                continue
            if each.is_control:
                self._take_marker(each, waiting.pop(each.producer_id, []))
                continue
            numbers = numbers_of(each.body)
            self.producers[each.producer_id] = each.epoch, numbers.last, each.max_timestamp
            if numbers.is_transactional:
                self.open.setdefault(each.producer_id, each.base)
                waiting.setdefault(each.producer_id, []).append(each.base)
        for bases in waiting.values():
            self.ends.update(dict.fromkeys(bases, OPEN))

    def _take_marker(self, marker: Stored, bases: list[int]) -> None:
        epoch, last, _ = self.producers.get(marker.producer_id, (-1, -1, -1))
        last = last if epoch == marker.epoch else -1
        self.producers[marker.producer_id] = marker.epoch, last, marker.max_timestamp
        end = COMMIT if _KIND.unpack_from(marker.body)[0] else ABORT
        self.ends.update(dict.fromkeys(bases, end))
        first = self.open.pop(marker.producer_id, None)
        if first is not None and end == ABORT:
            self.aborted.append(Aborted(marker.producer_id, first, marker.base))

    @property
    def middles(self) -> list[int]:
        """An offset within each batch."""
        return [(each.base + each.last + 1) // 2 for each in self._stored]

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return max(self.start, min(self.open.values(), default=self.end))

    def visible(self, offset: int, end: int) -> list[int]:
        """Return the batches that a reader of committed records sees between two offsets."""
        return [
            each.base
            for each in self._stored
            if each.last >= offset
            and each.last < end
            and not each.is_control
            and self.ends.get(each.base, COMMIT) == COMMIT
        ]

    def judge_read(self, offset: int, answer: Any, batches: Sequence[Stored]) -> None:
        """Judge what a fetch of committed records has answered, read as clients read it.

        Raises:
            Wrong: It shows too much or too little, or its numbers are not those of the log.
        """
        told = answer.high_watermark, answer.last_stable_offset
        least = self.stable if self.is_exact and not self.start else self.start
        if told[0] != self.end or not least <= told[1] <= self.stable:
            raise Wrong(f"ends {told}, not {(self.end, self.stable)}")
        stable = told[1]
        if any(each.base >= stable for each in batches):
            raise Wrong(f"offsets behind the last stable one, {stable}")
        upper = batches[-1].last + 1 if batches else offset
        if not batches and any(offset <= each.last < stable for each in self._stored):
            raise Wrong(f"nothing up to the last stable offset {stable}")
        listed = [tuple(each) for each in answer.aborted_transactions or ()]
        aborted = [each for each in self.aborted if each.last >= offset]
        for each in listed:
            is_known = any((known.producer_id, known.first) == each for known in aborted)
            if not is_known and each[1] >= self.start:
                raise Wrong(f"{each} is listed as aborted, of {aborted}")
        seen = read_committed(batches, listed)
        if seen != self.visible(offset, upper):
            raise Wrong(f"{seen} are seen, not {self.visible(offset, upper)}")

    def judge_producers(
        self, answered: Iterable[tuple[int, int, int, int, int, int]], expired_ms: int
    ) -> None:
        """Compare the answer of DescribeProducers, in the order of its fields.

        Producers up to a time may be forgotten, unless their transactions are open.

        Raises:
            Wrong: A producer is missing or has other numbers.
        """
        told = {row[0]: (*row[1:4], row[5]) for row in answered}
        for producer_id, numbers in self.producers.items():
            due = *numbers, self.open.get(producer_id, -1)
            found = told.get(producer_id)
            if found is None and numbers[2] <= expired_ms and producer_id not in self.open:
                continue
            is_near = found is not None and found[0] == due[0]
            if found != due and not (is_near and (self.start or not self.is_exact)):
                raise Wrong(f"producer {producer_id} is {found}, not {due}")
        if not self.start and len(told) > len(self.producers):
            raise Wrong(f"producers {sorted(told)} are told, not {sorted(self.producers)}")


def read_committed(batches: Sequence[Stored], aborted: Iterable[tuple[int, int]]) -> list[int]:
    """Return the offsets of the batches that a client shows, by the list of the answer."""
    waiting = sorted(aborted, key=lambda each: each[1])
    hidden: set[int] = set()
    seen = []
    for each in batches:
        while waiting and waiting[0][1] <= each.last:
            hidden.add(waiting.pop(0)[0])
        if each.is_control:
            has_record = len(each.body) >= _KIND.size  # the cleaner takes those of old markers
            if has_record and not _KIND.unpack_from(each.body)[0]:
                hidden.discard(each.producer_id)
        elif each.producer_id not in hidden or not numbers_of(each.body).is_transactional:
            seen.append(each.base)
    return seen


def settle(transactions: Iterable[Transaction], views: dict[LogModel, View]) -> None:
    """Compare the ends that logs show with those that transactions may have.

    Raises:
        Wrong: One has another end, or two.
    """
    for each in transactions:
        found: dict[str, str] = {}
        for log, batch in [] if each.is_torn else each.batches:
            view = views.get(log)
            end = None if view is None else view.ends.get(-1 if batch.base is None else batch.base)
            if view is not None and end is not None and (end != OPEN or view.is_exact):
                found.setdefault(end, f"offset {batch.base}")
        if len(found) > 1:
            raise Wrong(f"{each} is torn: {found}")
        for end in found:
            if end not in each.may:
                raise Wrong(f"{each} shows as {end}; possible: {each.may}")
            if end != OPEN:
                each.ended(end)


def judge_keys(
    transactions: Iterable[Transaction],
    log: LogModel,
    seen: Iterable[Seen],
    stable: int,
    torn: Container[int],
) -> None:
    """Compare the committed records that a compacted log shows with those that it must have.

    ``torn`` has the timestamps of records that a power failure may have taken.

    Raises:
        Wrong: The last record of a key is missing, or a record was not committed.
    """
    may: set[int] = set()
    last: dict[bytes | None, int] = {}
    for each in transactions:
        for batch in [batch for other, batch in each.batches if other is log]:
            may.update(batch.sent.timestamps if COMMIT in each.may else ())
            end = (batch.base or 0) + batch.sent.size - 1
            if each.may == [COMMIT] and end < stable:
                key = next(iterate_records(batch.frame)).key
                last[key] = max(end, last.get(key, 0))
    newest: dict[bytes | None, int] = {}
    for offset, key, _, timestamp in seen:
        newest[key] = offset
        if timestamp not in may and timestamp not in torn:
            raise Wrong(f"the record at {offset} of the compacted topic was not committed")
    for key, offset in last.items():
        if newest.get(key, -1) < offset:
            raise Wrong(f"{offset} of the compacted topic was the last of its key and is missing")
