"""Incremental fetch sessions by KIP-227: epochs, news, fairness, eviction."""

from collections.abc import Callable

import pytest

from broker.fetch_sessions import FetchPlan, FetchSessions, TopicKey
from protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from protocol.fetch import FetchPartition, FetchRequest, PartitionFetched
from tests.support.clock import FakeClock


def ask(
    session_id: int,
    epoch: int,
    wanted: dict[tuple[TopicKey, int], int] | None = None,
    forgotten: list[tuple[TopicKey, list[int]]] | None = None,
) -> FetchRequest:
    """Build a request for partitions at offsets."""
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            (key, [FetchPartition(partition, -1, offset, -1, -1, 1 << 20)])
            for (key, partition), offset in (wanted or {}).items()
        ],
        forgotten=forgotten or [],
        rack_id="",
        cluster_id=None,
    )


def got(index: int, *, data: bytes = b"", end: int = 0, error: int = 0) -> PartitionFetched:
    """Build what was read of one partition."""
    return PartitionFetched(index, error, end, end, 0, None, data)


def places(plan: FetchPlan) -> list[tuple[TopicKey, int]]:
    """Return what a plan reads, in order."""
    return [(key, wanted.partition) for key, wanted in plan.partitions]


@pytest.fixture
def clock() -> FakeClock:
    """A clock that the test moves."""
    return FakeClock()


@pytest.fixture
def sessions(clock: FakeClock) -> FetchSessions:
    """A cache with room for two."""
    return FetchSessions(lambda: 2, clock.monotonic)


def begin(sessions: FetchSessions, *indexes: int) -> int:
    """Open a session for partitions of topic t and return its id."""
    plan = sessions.plan(ask(0, 0, {("t", index): 0 for index in indexes}), by_id=False)
    session_id, _ = sessions.conclude(plan, [("t", got(index)) for index in indexes])
    return session_id


def test_a_full_fetch_without_session_stays_without(sessions: FetchSessions) -> None:
    """Epoch -1 is a plain fetch: every partition is answered, session 0."""
    plan = sessions.plan(ask(0, -1, {("t", 0): 5}), by_id=False)
    fetched = [("t", got(0))]

    assert sessions.conclude(plan, fetched) == (0, fetched)  # type: ignore[arg-type]
    assert len(sessions) == 0


def test_an_incremental_answer_names_only_news(sessions: FetchSessions) -> None:
    """Data, a moved watermark and errors are news; the same again is not."""
    session_id = begin(sessions, 0, 1, 2, 3)
    plan = sessions.plan(ask(session_id, 1), by_id=False)
    fetched: list[tuple[TopicKey, PartitionFetched]] = [
        ("t", got(0)),
        ("t", got(1, data=b"x")),
        ("t", got(2, end=7)),
        ("t", got(3, error=3)),
    ]
    answered, named = sessions.conclude(plan, fetched)

    assert answered == session_id
    assert [result.index for _, result in named] == [1, 2, 3]


def test_recovery_from_an_error_is_news(sessions: FetchSessions) -> None:
    """After an error the watermark counts as unknown, so the healthy answer is told."""
    session_id = begin(sessions, 0)
    for epoch, result, expected in ((1, got(0, error=3), 1), (2, got(0), 1), (3, got(0), 0)):
        plan = sessions.plan(ask(session_id, epoch), by_id=False)
        _, named = sessions.conclude(plan, [("t", result)])

        assert len(named) == expected


def test_a_partition_with_data_goes_to_the_end(sessions: FetchSessions) -> None:
    """So that the others have their turn in the next request."""
    session_id = begin(sessions, 0, 1, 2)
    plan = sessions.plan(ask(session_id, 1), by_id=False)
    sessions.conclude(plan, [("t", got(0, data=b"x")), ("t", got(1)), ("t", got(2))])

    assert places(sessions.plan(ask(session_id, 2), by_id=False)) == [("t", 1), ("t", 2), ("t", 0)]


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    """An incremental request changes the session; it reads all of it."""
    session_id = begin(sessions, 0, 1)
    request = ask(session_id, 1, {("t", 0): 9, ("u", 5): 3}, [("t", [1])])
    plan = sessions.plan(request, by_id=False)

    assert places(plan) == [("t", 0), ("u", 5)]
    assert plan.partitions[0][1].fetch_offset == 9


def test_a_session_without_partitions_ends(sessions: FetchSessions) -> None:
    """Forgetting the last partition answers without a session."""
    session_id = begin(sessions, 0)
    plan = sessions.plan(ask(session_id, 1, forgotten=[("t", [0])]), by_id=False)

    assert sessions.conclude(plan, []) == (0, [])
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("request_of", "by_id", "error"),
    [
        (lambda session_id: ask(session_id + 1, 1), False, FetchSessionIdNotFound),
        (lambda session_id: ask(session_id, 2), False, InvalidFetchSessionEpoch),
        (lambda session_id: ask(session_id, 1), True, FetchSessionTopicIdError),
    ],
)
def test_a_wrong_request_is_refused(
    sessions: FetchSessions,
    request_of: Callable[[int], FetchRequest],
    by_id: bool,
    error: type[Exception],
) -> None:
    """Unknown id, lost request, names after ids: each has its code; the session stays."""
    session_id = begin(sessions, 0)
    with pytest.raises(error):
        sessions.plan(request_of(session_id), by_id=by_id)

    assert len(sessions) == 1


def test_the_epoch_wraps_to_one(sessions: FetchSessions) -> None:
    """After 2147483647 comes 1: 0 and -1 mean something else."""
    session_id = begin(sessions, 0)
    sessions._sessions[session_id].epoch = 2**31 - 1
    sessions.plan(ask(session_id, 2**31 - 1), by_id=False)

    assert places(sessions.plan(ask(session_id, 1), by_id=False)) == [("t", 0)]


def test_closing_removes_the_session(sessions: FetchSessions) -> None:
    """Epoch -1 with an id is how a client says goodbye; epoch 0 with an id starts anew."""
    first = begin(sessions, 0)
    sessions.plan(ask(first, -1), by_id=False)

    assert len(sessions) == 0


def test_a_full_cache_evicts_only_old_or_smaller_sessions(
    sessions: FetchSessions, clock: FakeClock
) -> None:
    """Fresh sessions are safe; after 120 s the least recently used one goes."""
    first, second = begin(sessions, 0), begin(sessions, 1)
    assert begin(sessions, 2) == 0
    clock.advance(121_000)
    sessions.plan(ask(second, 1), by_id=False)
    third = begin(sessions, 2)

    assert third
    assert sessions.evicted_count == 1
    with pytest.raises(FetchSessionIdNotFound):
        sessions.plan(ask(first, 1), by_id=False)
