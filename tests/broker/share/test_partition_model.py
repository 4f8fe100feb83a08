"""A queue beside its model, through random histories."""

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from siltstone.broker.share.partition import Batch, Limits, SharePartition, Stored, Wish
from siltstone.broker.share.state import ShareState, StateBatch, combine
from siltstone.protocol.errors import KafkaError
from tests.broker.share.model import ARCHIVED, FINAL, Held, Model, Record, Refused

MEMBERS = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from([0, 1, 1, 1, 2, 2, 2, 3, 4])
LOCK_MS = 100


class Histories(RuleBasedStateMachine):
    """Members work a partition off, the log is appended to and compacted, and time passes."""

    @initialize(
        start=st.integers(0, 5),
        deliveries=st.integers(2, 6),
        in_flight=st.sampled_from([12, 30, 1000]),
    )
    def begin(self, start: int, deliveries: int, in_flight: int) -> None:
        """Begin with an empty queue."""
        self.now = 0.0
        self.limits = Limits(deliveries, in_flight, LOCK_MS)
        self.queue = SharePartition(start)
        self.model = Model(start, deliveries, in_flight, LOCK_MS)
        self.log: list[range] = []
        self.end = 0
        self.stored = ShareState(0, start)

    @rule(size=st.integers(1, 12), gap=st.sampled_from([0, 0, 0, 0, 1, 4]))
    def append(self, size: int, gap: int) -> None:
        """Append a batch; a gap is one that compaction has left."""
        self.log.append(range(self.end + gap, self.end + gap + size))
        self.end += gap + size

    @rule(place=st.floats(0, 0.99))
    def compact(self, place: float) -> None:
        """Remove a batch of the log, but not the last one."""
        if len(self.log) > 1:
            del self.log[int(place * (len(self.log) - 1))]

    @rule(
        member=MEMBERS,
        most=st.integers(1, 20),
        size=st.integers(1, 8),
        is_limited=st.booleans(),
        read=st.integers(1, 5),
    )
    def acquire(self, member: str, most: int, size: int, is_limited: bool, read: int) -> None:
        """Acquire what is read."""
        offset = self.queue.next_fetch_offset()
        found = [each for each in self.log if each[-1] >= offset][:read]
        if not found:
            return
        wish = Wish(member, most, size, is_limited)
        stored = [Stored(each[0], each[-1]) for each in found]
        acquired = self.queue.acquire(wish, offset, stored, self.limits, self.now)
        told = self.model.acquire(member, most, size, is_limited, found, self.now)
        assert [tuple(each) for each in acquired] == told

    @rule(
        member=MEMBERS,
        first=st.integers(-3, 30),
        types=st.lists(TYPES, min_size=1, max_size=12),
        length=st.integers(1, 20),
        is_written=st.sampled_from([True, True, True, False]),
    )
    def acknowledge(
        self, member: str, first: int, types: list[int], length: int, is_written: bool
    ) -> None:
        """Acknowledge a range, with one type or one for each record; perhaps it is not written."""
        first = max(0, self.queue.start_offset + first)
        last = first + (length if len(types) == 1 else len(types)) - 1
        before = [deepcopy(each.records) for each in self.model.batches]
        is_refused = False
        try:
            self.model.acknowledge(member, first, last, types, self.now)
        except Refused:
            is_refused = True
        with suppress(KafkaError):
            change = self.queue.acknowledge(member, [(first, last, types)], self.limits, self.now)
            assert not is_refused
            if is_written:
                self.write(change.batches)
                return
            self.queue.undo(change)
            is_refused = True
            for batch, records in zip(self.model.batches, before, strict=True):
                batch.records = records
        assert is_refused

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        """Close the session of a member."""
        self.model.let_go(member)
        self.write(self.queue.release(member, self.limits).batches)

    @rule(passed=st.sampled_from([1, 30, 60, 120]))
    def wait(self, passed: float) -> None:
        """Let time pass; locks run out."""
        self.now += passed
        self.model.let_go(None, self.now)
        self.write(self.queue.expire(self.now, self.limits).batches)
        assert self.queue.next_deadline is None or self.queue.next_deadline > self.now

    @rule(by=st.integers(1, 8))
    def delete_records(self, by: int) -> None:
        """Move the start of the log."""
        start = min(self.end, self.queue.start_offset + by)
        self.log = [each for each in self.log if each[-1] >= start]
        self.queue.move_start(start)
        if start > self.model.start:
            self.model.move(start)

    @rule()
    def restart(self) -> None:
        """Read the stored state back: nothing is free again whose fate was written."""
        done = {offset for offset, each in self.model.known.items() if each.state in FINAL}
        self.queue = SharePartition.load(self.stored, self.stored.start_offset)
        before, self.model = self.model, Model(self.queue.start_offset, *self.limits[:3])
        self.model.batches = [_model_of(batch) for batch in self.queue.batches]
        known = self.model.known
        again = {o for o in done if o >= self.model.start and known.get(o, Record()).state == 0}
        assert all(before.known[offset].state == ARCHIVED for offset in again)

    def write(self, batches: Sequence[StateBatch]) -> None:
        """Write a change as the share coordinator does, then move the start."""
        if batches:
            start = self.queue.start_offset
            self.stored = ShareState(0, start, 0, combine(self.stored.batches, batches, start))
            self.queue.advance()
            self.model.move()

    @invariant()
    def is_alike(self) -> None:
        """All records, the start and the counts are alike."""
        known = {
            offset: Record(run.state.value, run.deliveries, run.member, run.deadline)
            for run in self.queue.runs()
            for offset in range(run.first, run.last + 1)
        }
        assert known == self.model.known
        assert self.queue.start_offset == self.model.start
        assert self.queue.delivery_complete_count == self.model.complete()
        assert self.queue.next_fetch_offset() == self.model.next_offset()


def _model_of(batch: Batch) -> Held:
    records = {
        offset: Record(run.state.value, run.deliveries)
        for run in batch.runs
        for offset in range(run.first, run.last + 1)
    }
    return Held(records, apart=batch.is_split, new=batch.is_new)


TestAQueueIsLikeItsModel = Histories.TestCase
TestAQueueIsLikeItsModel.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
