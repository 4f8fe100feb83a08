"""The stored state of a queue: records and what follows from them, beside a plain model."""

from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.share.state import ShareState, StateBatch, combine
from siltstone.broker.share.stored import StoredState
from siltstone.protocol.coordinator.share_state_records import Snapshot, Update
from siltstone.protocol.messages.share_group_state import ShareUpdateStateBatch
from tests.broker.share.test_state import batches

changes = st.tuples(st.lists(batches, max_size=40), st.integers(0, 12), st.integers(0, 20))


@given(st.lists(changes, max_size=12), st.integers(0, 4))
def test_a_replay_of_the_records_gives_the_state(
    told: list[tuple[list[StateBatch], int, int]], per_snapshot: int
) -> None:
    """The state that combines all batches at once is that of the records, one after the other."""
    queue, replayed = StoredState(0), StoredState(0)
    start, held = 0, tuple[StateBatch, ...]()
    record: Snapshot | Update = queue.begin(1, 0, 1000, is_new=True)
    for offset, (new, moved, count) in enumerate([([], 0, 0), *told]):
        if offset:
            start += moved
            held = combine(held, new, start)
            record = queue.change(ShareState(1, start, count, new), 3, 2000, per_snapshot)
        for each in (queue, replayed):
            if isinstance(record, Snapshot):
                each.take_snapshot(record, offset, per_snapshot)
            else:
                each.take_update(record)

    assert queue.batches() == replayed.batches() == held
    assert (queue.start_offset, queue.state_epoch) == (start, 1)
    assert queue.updates <= per_snapshot


def _begun(per_snapshot: int = 2) -> StoredState:
    queue = StoredState(0)
    queue.take_snapshot(queue.begin(1, 10, 1000, is_new=True), 0, per_snapshot)
    return queue


def test_a_start_never_goes_back() -> None:
    """A change with an older start keeps the newer start, and the count that belongs to it."""
    queue = _begun()
    queue.take_update(_update(queue.change(ShareState(1, 20, 5), 0, 0, 2)))

    assert _update(queue.change(ShareState(1, 15, 9), 0, 0, 2))[2:4] == (20, 5)
    assert _update(queue.change(ShareState(1, 20, 3), 0, 0, 2))[2:4] == (20, 5)
    assert _update(queue.change(ShareState(1, 25, 3), 0, 0, 2))[2:4] == (25, 3)


def test_a_snapshot_follows_so_many_updates() -> None:
    """With the next epoch, and the count begins again."""
    queue = _begun()
    for count in range(2):
        update = queue.change(ShareState(1, 10, 0, [StateBatch(10, 11 + count, 2, 1)]), 0, 0, 2)
        queue.take_update(_update(update))
    snapshot = queue.change(ShareState(1, 11, 0), 0, 5000, 2)

    assert isinstance(snapshot, Snapshot)
    assert snapshot.snapshot_epoch == 1
    assert snapshot.state_batches == (StateBatch(11, 12, 2, 1),)
    assert (snapshot.create_timestamp, snapshot.write_timestamp) == (5000, 5000)
    queue.take_snapshot(snapshot, 3, 2)
    assert queue.updates == 0


def test_a_state_takes_little_memory() -> None:
    """2,000 records in flight with different states take 19 bytes each."""
    queue = _begun(500)
    for offset in range(10, 2010):
        batch = ShareUpdateStateBatch(offset, offset, 2 * (offset % 2), 1)
        queue.take_update(Update(0, 0, 10, 0, (batch,)))

    assert queue.size == 2000 * 19


def _update(record: Snapshot | Update) -> Update:
    assert isinstance(record, Update)
    return record
