"""Incremental fetch sessions by KIP-227: epochs, news, fairness, eviction, what is left in logs."""

import asyncio
import gc
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from siltstone.broker.fetching.session import FetchPlan, SessionPartition, is_read_up
from siltstone.broker.fetching.sessions import EVICTION_SECONDS, FetchSessions, SessionRoom
from siltstone.broker.fetching.watching import READ_COMMITTED
from siltstone.broker.process.loop_share import FIRST_PIECE
from siltstone.protocol.core import Grid
from siltstone.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages import fetch as messages
from siltstone.protocol.messages.fetch import FetchPartition, FetchTopic, PartitionData
from tests.support.clock import FakeClock
from tests.support.fetch_requests import FetchRequest, to_message
from tests.support.line import others_first

if TYPE_CHECKING:
    from siltstone.broker.fetching.sessions import Fetched
    from siltstone.protocol.names import TopicKey
    from siltstone.storage.log.log import Log, Watcher


class WatchedLog:
    """A log as far as sessions are concerned: its watchers, and where it starts."""

    def __init__(self) -> None:
        self.end = self
        self.watchers: dict[Watcher, None] = {}
        self.log_start_offset = self.log_end_offset = self.last_stable_offset = 0

    def tell_watchers(self) -> None:
        """Change in a way that nobody looks at here."""
        for each in tuple(self.watchers):
            each.log_changed()


class Logs:
    """The logs of all partitions that are asked for, and the ones whose start has moved."""

    def __init__(self) -> None:
        self.made: dict[tuple[TopicKey, int], WatchedLog] = defaultdict(WatchedLog)
        self.moved: dict[Any, None] = {}

    def get(self, key: "TopicKey", index: int) -> "Log":
        """Return a log; every one exists."""
        return cast("Log", self.made[key, index])

    def change(self, *indexes: int) -> None:
        """Have something happen in partitions of topic t."""
        for index in indexes:
            self.made["t", index].tell_watchers()

    @property
    def watcher_count(self) -> int:
        """How many stand on all logs together."""
        return sum(len(log.watchers) for log in self.made.values())


def ask(
    session_id: int,
    epoch: int,
    wanted: "dict[tuple[TopicKey, int], int] | None" = None,
    forgotten: "list[tuple[TopicKey, list[int]]] | None" = None,
    *,
    isolation_level: int = 0,
) -> messages.FetchRequest:
    """Build a request for partitions at offsets."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            (key, [FetchPartition(partition, -1, offset, -1, -1, 1 << 20)])
            for (key, partition), offset in (wanted or {}).items()
        ],
        forgotten=forgotten or [],
    )
    return to_message(request)


def got(index: int, *, data: bytes = b"", end: int = 0, error: int = 0) -> PartitionData:
    """Build what was read of one partition."""
    return PartitionData(index, error, end, end, 0, records=data)


def read(*results: PartitionData) -> "list[Fetched]":
    """Return what was read of partitions of topic t."""
    grid = Grid(len(results), len(PartitionData._fields))
    for column, values in enumerate(zip(*results, strict=True)):
        if isinstance(values[0], int):
            for place, number in enumerate(values):
                grid.put(place, column, number)
        else:
            grid.put_column(column, list(values))
    return [("t", grid)]


def places(plan: FetchPlan) -> "list[tuple[TopicKey, int]]":
    """Return what a plan reads, in order."""
    return [(key, wanted.partition) for key, wanted in plan.partitions]


@pytest.fixture
def clock() -> FakeClock:
    """A clock that the test moves."""
    return FakeClock()


@pytest.fixture
def logs() -> Logs:
    """The logs."""
    return Logs()


@pytest.fixture
def sessions(clock: FakeClock, logs: Logs) -> FetchSessions:
    """A cache with room for two."""
    return FetchSessions(room_for(2), clock.monotonic, logs.get, logs.moved)


def room_for(slots: int, partitions: int = 1000) -> SessionRoom:
    """Return so much room; nobody is told when it is used up."""
    return SessionRoom(lambda: slots, lambda: partitions, lambda: None)


def begin(sessions: FetchSessions, *indexes: int) -> int:
    """Open a session for partitions of topic t and return its id."""
    plan = sessions.plan(ask(0, 0, {("t", index): 0 for index in indexes}), by_id=False)
    session_id, _ = sessions.conclude(plan, read(*map(got, indexes)))
    return session_id


def test_a_full_fetch_without_session_stays_without(sessions: FetchSessions) -> None:
    """Epoch -1 is a plain fetch: every partition is answered, session 0."""
    plan = sessions.plan(ask(0, -1, {("t", 0): 5}), by_id=False)
    fetched = read(got(0))

    assert sessions.conclude(plan, fetched) == (0, fetched)
    assert len(sessions) == 0


def test_a_topic_that_is_named_behind_itself_is_one_topic(sessions: FetchSessions) -> None:
    """However often; what the request says of each is left as it is."""
    named = [
        FetchTopic(name, NO_ID, [FetchPartition(index, -1, 0, -1, -1, 1 << 20)] if index else [])
        for index, name in enumerate(("t", "t", "t", "u", "t", "t", "t"))
    ]
    request = ask(0, -1, {})._replace(topics=named)

    plan = sessions.plan(request, by_id=False)

    assert places(plan) == [("t", 1), ("t", 2), ("u", 3), ("t", 4), ("t", 5), ("t", 6)]
    assert [key for key, _ in plan.topics] == ["t", "u", "t"]
    assert [len(topic.partitions) for topic in named] == [0, 1, 1, 1, 1, 1, 1]


def test_an_incremental_answer_names_only_news(sessions: FetchSessions, logs: Logs) -> None:
    """Data, a moved watermark and errors are news; the same again is not."""
    session_id = begin(sessions, 0, 1, 2, 3)
    logs.change(0, 1, 2, 3)
    plan = sessions.plan(ask(session_id, 1), by_id=False)
    fetched = [got(0), got(1, data=b"x"), got(2, end=7), got(3, error=3)]

    assert sessions.conclude(plan, read(*fetched)) == (session_id, [("t", fetched[1:])])


def test_recovery_from_an_error_is_news(sessions: FetchSessions, logs: Logs) -> None:
    """After an error the watermark counts as unknown, so the healthy answer is told."""
    session_id = begin(sessions, 0)
    logs.change(0)
    for epoch, result, expected in ((1, got(0, error=3), 1), (2, got(0), 1), (3, got(0), 0)):
        if epoch == 3:
            logs.change(0)
        plan = sessions.plan(ask(session_id, epoch), by_id=False)
        _, named = sessions.conclude(plan, read(result))

        assert len(named) == expected


def test_a_partition_with_data_goes_to_the_end(sessions: FetchSessions, logs: Logs) -> None:
    """So that the others have their turn in the next request."""
    session_id = begin(sessions, 0, 1, 2)
    logs.change(2, 1, 0)
    plan = sessions.plan(ask(session_id, 1), by_id=False)
    sessions.conclude(plan, read(got(0, data=b"x"), got(1), got(2)))
    logs.change(2, 1)

    assert places(sessions.plan(ask(session_id, 2), by_id=False)) == [("t", 1), ("t", 2), ("t", 0)]


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    """An incremental request changes the session, and reads what it has changed."""
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
    request_of: Callable[[int], messages.FetchRequest],
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
    sessions.sessions[session_id].epoch = 2**31 - 1
    sessions.plan(ask(session_id, 2**31 - 1), by_id=False)

    assert (sessions.plan(ask(session_id, 1), by_id=False)).epoch == 2


def test_closing_removes_the_session(sessions: FetchSessions) -> None:
    """Epoch -1 with an id is how a client says goodbye; epoch 0 with an id starts again."""
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


def test_the_smallest_of_the_old_sessions_makes_room(
    sessions: FetchSessions, clock: FakeClock
) -> None:
    """A larger one takes its place; that a still smaller one is new does not keep it."""
    old = begin(sessions, 0, 1)
    clock.advance(60_000)
    begin(sessions, 0)
    clock.advance(61_000)
    sessions.plan(ask(old, 1), by_id=False)

    assert begin(sessions, 0, 1) == 0
    assert begin(sessions, 0, 1, 2)
    with pytest.raises(FetchSessionIdNotFound):
        sessions.plan(ask(old, 2), by_id=False)


@pytest.mark.parametrize("is_data", [True, False], ids=["data", "error"])
def test_what_is_not_read_up_is_read_again(sessions: FetchSessions, *, is_data: bool) -> None:
    """Data that the client has not taken, and errors, need no change of the log."""
    session_id = begin(sessions, 0, 1)
    for epoch in (1, 2, 3):
        plan = sessions.plan(
            ask(session_id, epoch, {("t", 1): 0} if epoch == 1 else {}), by_id=False
        )
        assert places(plan) == [("t", 1)]
        result = got(1, data=b"x", end=1) if is_data else got(1, error=1)
        sessions.conclude(plan, read(result))


def test_what_the_limits_kept_back_is_read_again(sessions: FetchSessions) -> None:
    """No records, but the position is below the end."""
    session_id = begin(sessions, 0)
    for epoch in (1, 2):
        plan = sessions.plan(
            ask(session_id, epoch, {("t", 0): 4} if epoch == 1 else {}), by_id=False
        )
        assert places(plan) == [("t", 0)]
        sessions.conclude(plan, read(got(0, end=5)))


async def test_what_the_next_request_forgets_is_not_read_again(
    sessions: FetchSessions, logs: Logs
) -> None:
    """It comes while an answer of many partitions lets others be served; that one is not sent."""
    many = range(2 * FIRST_PIECE)
    session_id = begin(sessions, *many)
    logs.change(*many)
    plan = sessions.plan(ask(session_id, 1), by_id=False)
    async with others_first():
        answering = asyncio.ensure_future(
            sessions.conclude_many(plan, read(*(got(index, data=b"x", end=1) for index in many)))
        )
        await asyncio.sleep(0)
        sessions.plan(ask(session_id, 2, forgotten=[("t", [0])]), by_id=False)
    with pytest.raises(InvalidFetchSessionEpoch):
        await answering

    plan = sessions.plan(ask(session_id, 3), by_id=False)
    assert sorted(places(plan)) == [("t", index) for index in many[1:]]


def test_another_isolation_level_reads_all(sessions: FetchSessions) -> None:
    """A partition read up to the last stable offset may have records above it."""
    session_id = begin(sessions, 0, 1)
    levels = [0, READ_COMMITTED, READ_COMMITTED, 0]
    asked = []
    for epoch, level in enumerate(levels, 1):
        plan = sessions.plan(ask(session_id, epoch, isolation_level=level), by_id=False)
        sessions.conclude(plan, read(*(got(index) for _, index in places(plan))))
        asked.append(plan.count)

    assert asked == [0, 2, 0, 2]


def test_who_names_the_epoch_of_its_last_record_is_always_read() -> None:
    """The log forgets old epochs later than it moves its start."""
    for epoch, expected in ((-1, True), (0, False)):
        wanted = FetchPartition(0, -1, 5, epoch, -1, 1 << 20)

        assert is_read_up(wanted, read(got(0, end=5))[0][1], 0, 0) is expected


def test_a_start_that_moved_on_another_thread_is_read(sessions: FetchSessions, logs: Logs) -> None:
    """A cleaner thread leaves its log in the set; a request takes it out, for all sessions."""
    first, second = begin(sessions, 0), begin(sessions, 0)
    logs.moved[logs.made["t", 0]] = None
    plans = [sessions.plan(ask(each, 1), by_id=False) for each in (first, second)]

    assert [places(plan) for plan in plans] == [[("t", 0)]] * 2
    assert not logs.moved


def test_a_start_that_moves_while_it_is_read_is_read_again(
    sessions: FetchSessions, logs: Logs
) -> None:
    """Nobody stood on the log when the cleaner thread moved it."""
    plan = sessions.plan(ask(0, 0, {("t", 0): 5}), by_id=False)
    logs.made["t", 0].log_start_offset = 3
    session_id, _ = sessions.conclude(plan, read(got(0, end=5)))

    assert places(sessions.plan(ask(session_id, 1), by_id=False)) == [("t", 0)]


def test_a_change_is_noted_once(sessions: FetchSessions, logs: Logs) -> None:
    """Until its client asks again a session hears no more of a log, however much is appended."""
    session_id = begin(sessions, 0, 1)
    logs.change(0)
    assert [len(log.watchers) for log in logs.made.values()] == [0, 1]
    plan = sessions.plan(ask(session_id, 1), by_id=False)
    sessions.conclude(plan, read(got(0, end=0)))

    assert [len(log.watchers) for log in logs.made.values()] == [1, 1]


@pytest.mark.parametrize("end", ["closed", "replaced", "emptied", "evicted"])
def test_who_ends_leaves_nothing_in_the_logs(
    sessions: FetchSessions, logs: Logs, clock: FakeClock, end: str
) -> None:
    """However a session ends: no watcher, and no room that a thousand of them once took."""
    everything = range(100)
    gc.collect()
    gc.disable()
    try:
        session_id = begin(sessions, *everything)
        logs.change(*range(50))
        if end == "closed":
            sessions.plan(ask(session_id, -1), by_id=False)
        elif end == "replaced":
            sessions.plan(ask(session_id, 0), by_id=False)
        elif end == "emptied":
            sessions.plan(ask(session_id, 1, {}, [("t", list(everything))]), by_id=False)
        else:
            begin(sessions, 200)
            clock.advance(121_000)
            begin(sessions, 201)
            assert [logs.made["t", index].watchers.keys() for index in (200, 201)] != [set()] * 2
        left = [each for each in gc.get_objects() if isinstance(each, SessionPartition)]
    finally:
        gc.enable()

    assert len(left) == logs.watcher_count == (2 if end == "evicted" else 0)


def test_a_log_that_many_have_left_keeps_no_room_for_them(logs: Logs, clock: FakeClock) -> None:
    """A thousand sessions of one partition come and go."""
    sessions = FetchSessions(room_for(1000), clock.monotonic, logs.get, logs.moved)
    ids = [begin(sessions, 0) for _ in range(1000)]
    watchers = logs.made["t", 0].watchers
    assert len(watchers) == 1000
    for each in ids:
        sessions.plan(ask(each, -1), by_id=False)

    assert sys.getsizeof(watchers) == sys.getsizeof({})


def test_a_topic_that_comes_again_is_another_log(sessions: FetchSessions, logs: Logs) -> None:
    """Its watchers were dismissed by the old one; the next read finds the new one."""
    session_id = begin(sessions, 0)
    gone = logs.made.pop(("t", 0))
    for each in tuple(gone.watchers):
        each.log_gone()
    for epoch, result in ((1, got(0, error=3)), (2, got(0))):
        plan = sessions.plan(ask(session_id, epoch), by_id=False)
        assert places(plan) == [("t", 0)]
        sessions.conclude(plan, read(result))

    assert (len(gone.watchers), len(logs.made["t", 0].watchers)) == (0, 1)


def test_partitions_of_all_sessions_have_a_limit(logs: Logs, clock: FakeClock) -> None:
    """A fetch that would exceed it is served without a session, until an old one may go."""
    refused: list[None] = []
    room = SessionRoom(lambda: 1000, lambda: 5, lambda: refused.append(None))
    sessions = FetchSessions(room, clock.monotonic, logs.get, logs.moved)
    assert begin(sessions, 0, 1, 2)

    assert (begin(sessions, 0, 1, 2), len(refused)) == (0, 1)
    assert begin(sessions, 0, 1)
    assert sessions.partition_count == 5
    clock.advance((EVICTION_SECONDS + 1) * 1000)
    assert begin(sessions, 0, 1, 2, 3)
    assert (sessions.partition_count, sessions.evicted_count) == (4, 2)


def test_a_session_that_grows_beyond_the_limit_ends(logs: Logs, clock: FakeClock) -> None:
    """Its client begins again; one that names what it has is served as before."""
    sessions = FetchSessions(room_for(1000, 5), clock.monotonic, logs.get, logs.moved)
    session_id = begin(sessions, 0, 1, 2)
    same: dict[tuple[TopicKey, int], int] = {("t", index): 7 for index in range(3)}
    sessions.plan(ask(session_id, 1, same), by_id=False)
    sessions.plan(ask(session_id, 2, {**same, ("t", 3): 0, ("t", 4): 0}), by_id=False)
    assert sessions.partition_count == 5

    with pytest.raises(FetchSessionIdNotFound):
        sessions.plan(ask(session_id, 3, {("t", 5): 0}), by_id=False)
    assert (len(sessions), sessions.partition_count) == (0, 0)


async def test_a_large_request_cannot_exceed_it(logs: Logs, clock: FakeClock) -> None:
    """A request that is worked off some partitions at a time is refused as well."""
    sessions = FetchSessions(room_for(1000, 500), clock.monotonic, logs.get, logs.moved)
    session_id = begin(sessions, 0)
    many: dict[tuple[TopicKey, int], int] = {("t", index): 0 for index in range(600)}
    with pytest.raises(FetchSessionIdNotFound):
        await sessions.plan_many(ask(session_id, 1, many), by_id=False)

    assert (len(sessions), sessions.partition_count) == (0, 0)
