"""Laws of a transactional id whatever its producers do: Hypothesis plays them all."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from siltstone.broker.transactions.ending import End, end_transaction, fence
from siltstone.broker.transactions.initialising import Expected, begin, initialise
from siltstone.broker.transactions.transaction import (
    MAX_EPOCH,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
)
from siltstone.protocol.errors import KafkaError

S = TransactionState
TIMEOUT_MS = 60_000
BETWEEN = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
PREVIOUS = {
    S.EMPTY: BETWEEN,
    S.ONGOING: BETWEEN | {S.ONGOING},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: BETWEEN | {S.ONGOING},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
}

instances = st.integers(0, 2)
versions = st.sampled_from([0, 2])


class Held(NamedTuple):
    """The last answer to a producer."""

    producer_id: int
    epoch: int


class TransactionalId(RuleBasedStateMachine):
    """Three programs use one transactional id; answers get lost, the broker restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.next_id = 100
        self.held: dict[int, Held] = {}
        self.seen_ids = [99]
        # So near its end that epochs run out within an example.
        self.transaction = begin(99, TIMEOUT_MS, self.now_ms)._replace(producer_epoch=MAX_EPOCH - 4)
        self.open_by: Held | None = None

    def _publish(self, after: Transaction) -> None:
        before = self.transaction
        if after is before:
            return

        assert before.state in PREVIOUS[after.state]
        if after.producer_id == before.producer_id:
            assert after.producer_epoch >= before.producer_epoch
        else:
            assert after.producer_id not in self.seen_ids
            assert after.producer_epoch == 0
            assert after.previous_producer_id == before.producer_id
            self.seen_ids.append(after.producer_id)
        assert 0 <= after.producer_epoch <= MAX_EPOCH
        assert bool(after.partitions) <= (after.state not in BETWEEN)
        self.transaction = after

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    @rule(instance=instances, version=versions, names_itself=st.booleans(), is_lost=st.booleans())
    def init(self, instance: int, version: int, names_itself: bool, is_lost: bool) -> None:
        """A program asks for its epoch."""
        held = self.held.get(instance)
        expected = Expected(*held) if held and names_itself else None
        try:
            after = initialise(
                self.transaction,
                expected,
                TIMEOUT_MS,
                new_producer_id=self._new_id(),
                version=version,
                now_ms=self.now_ms,
            )
        except KafkaError:
            return
        self._publish(after)
        if after.state is S.EMPTY:
            assert after.producer_epoch < MAX_EPOCH  # nothing is taken in the last
        if after.state is S.EMPTY and not is_lost:
            self.held[instance] = Held(after.producer_id, after.producer_epoch)

    @rule(instance=instances, partition=st.integers(0, 3), version=versions)
    def add(self, instance: int, partition: int, version: int) -> None:
        """A program writes to a partition."""
        held = self.held.get(instance)
        if held is None:
            return
        try:
            after = add_partitions(
                self.transaction,
                *held,
                [("orders", partition)],
                client_version=version,
                now_ms=self.now_ms,
            )
        except KafkaError:
            return

        assert self.open_by in {None, held}
        self.open_by = held
        self._publish(after)

    @rule(instance=instances, commit=st.booleans(), version=versions, is_lost=st.booleans())
    def end(self, instance: int, commit: bool, version: int, is_lost: bool) -> None:
        """A program commits or aborts; it may have done so before."""
        held = self.held.get(instance)
        if held is None:
            return
        before = self.transaction
        try:
            after = end_transaction(
                before,
                End(*held, commit, version),
                new_producer_id=self._new_id(),
                now_ms=self.now_ms,
            )
        except KafkaError:
            return
        if before.state is S.ONGOING:
            assert self.open_by == held  # nobody ends what somebody else has begun
        self._publish(after)
        told = complete(after, self.now_ms) if after is not before else after
        if version == 2 and not is_lost:
            self.held[instance] = Held(told.producer_id, told.producer_epoch)

    @precondition(lambda self: self.transaction.state is S.ONGOING)
    @rule(version=versions)
    def time_out(self, version: int) -> None:
        """The broker aborts what took too long; its producer is fenced."""
        owner = self.open_by
        fenced = fence(
            self.transaction, version=version, new_producer_id=self._new_id(), now_ms=self.now_ms
        )
        self._publish(fenced)

        assert owner is not None
        assert owner.epoch < self.transaction.producer_epoch

    @precondition(lambda self: self.transaction.state in {S.PREPARE_COMMIT, S.PREPARE_ABORT})
    @rule()
    def write_markers(self) -> None:
        """All partitions have learnt it."""
        self._publish(complete(self.transaction, self.now_ms))
        self.open_by = None

    @rule()
    def restart(self) -> None:
        """The broker knows what its log says."""
        self.transaction = Transaction.of(self.transaction.logged)

    @rule(milliseconds=st.integers(1, TIMEOUT_MS))
    def pass_time(self, milliseconds: int) -> None:
        """The clock goes on."""
        self.now_ms += milliseconds

    @invariant()
    def at_most_one_program_is_live(self) -> None:
        """The current epoch is in the hands of one program at most."""
        current = Held(self.transaction.producer_id, self.transaction.producer_epoch)

        assert sum(held == current for held in self.held.values()) <= 1


TestTransactionalId = TransactionalId.TestCase
TestTransactionalId.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
