"""Quotas hold over every minute, whatever the requests are like; time is the test's."""

import heapq
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.security.quotas.book import (
    CONNECTION,
    CONSUMER,
    MUTATION,
    PRODUCER,
    REQUEST,
    Quotas,
    Values,
)
from siltstone.broker.security.quotas.meter import Meter
from siltstone.broker.security.quotas.rates import TokenBucket, Windows
from tests.support.clock import FakeClock

WINDOWS = Windows(11, 1)
LIMIT = 1_000_000.0
MINUTE = 60.0


def make_meter(limits: dict[str, float], clock: FakeClock) -> Meter:
    """Return a meter of clients that all have these quotas."""
    quotas = Quotas()
    quotas.replace({(("user", None),): limits})
    return Meter(quotas, clock, WINDOWS, WINDOWS)


def drive(
    meter: Meter, clock: FakeClock, key: str, cost: float, *, connections: int, seconds: float
) -> list[tuple[float, float]]:
    """Have connections of a user ask without a rest; return when they had how much."""
    began = clock.monotonic()
    waiting = [(began + number / 1000, number) for number in range(connections)]
    had = []
    while waiting[0][0] < began + seconds:
        due, number = heapq.heappop(waiting)
        clock.advance((due - clock.monotonic()) * 1000)
        delay = meter.charge(key, "alice", f"app-{number}", cost)
        had.append((due - began, cost))
        heapq.heappush(waiting, (due + max(math.ceil(delay * 1000) / 1000, 0.002), number))
    return had


def sum_between(had: list[tuple[float, float]], start: float, end: float) -> float:
    """Return what was had in a span of time."""
    return sum(cost for time, cost in had if start <= time < end)


@pytest.mark.parametrize("key", [PRODUCER, CONSUMER])
@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("size", [10_000, 100_000, 1_000_000, 5_000_000])
def test_a_byte_rate_is_held_within_a_tenth_over_a_minute(
    key: str, connections: int, size: int
) -> None:
    """In the first minute what a silent client may ask at once is added, and a request of each."""
    clock = FakeClock()
    meter = make_meter({key: LIMIT}, clock)
    had = drive(meter, clock, key, size, connections=connections, seconds=5 * MINUTE)

    first = sum_between(had, 0, MINUTE) / (LIMIT * MINUTE)
    assert 0.9 <= first <= 1 + (WINDOWS.credit + connections * size / LIMIT) / MINUTE
    if connections * size <= LIMIT:
        assert first <= 1.1
    for start in (60, 75, 90.5, 120, 200, 239):
        assert sum_between(had, start, start + MINUTE) == pytest.approx(LIMIT * MINUTE, rel=0.1)


def test_request_time_is_held_within_a_tenth_over_a_minute() -> None:
    """Ten per cent of the loop: six seconds of a minute, for requests of 4 ms."""
    clock = FakeClock()
    meter = make_meter({REQUEST: 10.0}, clock)
    had = drive(meter, clock, REQUEST, 0.4, connections=8, seconds=3 * MINUTE)

    assert sum_between(had, 0, MINUTE) == pytest.approx(10.0 * MINUTE, rel=0.1)
    assert sum_between(had, MINUTE, 2 * MINUTE) == pytest.approx(10.0 * MINUTE, rel=0.1)


def test_one_expensive_request_does_not_lock_a_client_out() -> None:
    """Of request time no more than the windows hold is owed, however long it took."""
    meter = make_meter({REQUEST: 0.1}, FakeClock())

    assert meter.charge(REQUEST, "alice", "", 500.0) == WINDOWS.memory


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 30)), min_size=1, max_size=60),
    st.floats(0.1, 20),
)
def test_no_more_is_had_than_the_bucket_holds(
    requests: list[tuple[float, float]], limit: float
) -> None:
    """A client that waits as it is told has at most its credit, its rate and one request more."""
    bucket = TokenBucket(5.0, limit, 0.0)
    now = total = 0.0
    for pause, cost in requests:
        now += pause
        bucket.take(cost, now)
        total += cost
        assert total <= limit * (5.0 + now) + cost + 1e-6 * total
        now += bucket.find_delay(now)
        assert bucket.find_delay(now) <= 1e-6 * total / limit


def test_who_was_slow_enough_never_waits() -> None:
    """At nine tenths of the limit, in requests of a second's worth."""
    clock = FakeClock()
    meter = make_meter({PRODUCER: LIMIT}, clock)
    for _ in range(600):
        clock.advance(1000)
        assert meter.charge(PRODUCER, "alice", "", 0.9 * LIMIT) == 0.0


def test_users_do_not_share_the_quota_of_the_default_user() -> None:
    """Each has as much for itself; connections of one user share."""
    meter = make_meter({PRODUCER: LIMIT}, FakeClock())

    assert meter.charge(PRODUCER, "alice", "a", 7 * LIMIT) == 2.0
    assert meter.charge(PRODUCER, "bob", "a", 6 * LIMIT) == 1.0
    assert meter.charge(PRODUCER, "alice", "b", LIMIT) == 3.0
    assert meter.charge(CONSUMER, "alice", "b", LIMIT) == 0.0


def test_a_new_limit_counts_from_the_next_request_on() -> None:
    """And what is owed under the old one takes no longer than it was told."""
    clock = FakeClock()
    quotas = Quotas()
    quotas.replace({(("user", "alice"),): {PRODUCER: LIMIT}})
    meter = Meter(quotas, clock, WINDOWS, WINDOWS)
    assert meter.charge(PRODUCER, "alice", "", 8 * LIMIT) == 3.0

    quotas.replace({(("user", "alice"),): {PRODUCER: LIMIT / 10}})
    assert meter.charge(PRODUCER, "alice", "", 0) == 3.0
    assert meter.charge(PRODUCER, "alice", "", LIMIT) == 13.0

    quotas.replace({})
    assert meter.charge(PRODUCER, "alice", "", LIMIT) == 0.0


def test_those_who_went_away_are_forgotten() -> None:
    """And no client that owes something is."""
    clock = FakeClock()
    quotas = Quotas()
    quotas.replace({(("client-id", None),): {PRODUCER: LIMIT}})
    meter = Meter(quotas, clock, WINDOWS, WINDOWS)
    assert meter.charge(PRODUCER, "", "debtor", 200 * LIMIT) == 195.0
    for number in range(10_000):
        clock.advance(10)
        meter.charge(PRODUCER, "", f"passing-{number}", 1.0)

    assert meter.known_count < 2_500
    assert meter.charge(PRODUCER, "", "debtor", 0) == pytest.approx(95.0)


def test_who_was_forgotten_shares_its_quota_again() -> None:
    """All client ids of a user have one bucket, those that asked before it was forgotten too."""
    clock = FakeClock()
    meter = make_meter({PRODUCER: LIMIT}, clock)
    meter.charge(PRODUCER, "alice", "a", 0)
    for number in range(2_000):
        meter.charge(PRODUCER, f"passing-{number}", "", 1.0)

    assert meter.charge(PRODUCER, "alice", "a", 8 * LIMIT) == 3.0
    assert meter.charge(PRODUCER, "alice", "b", 0) == 3.0


def test_a_mutation_rate_lets_as_much_pass_at_once_as_all_windows_hold() -> None:
    """As Kafka's TokenBucket (KIP-599)."""
    clock = FakeClock()
    meter = make_meter({MUTATION: 2.0}, clock)

    assert meter.charge(MUTATION, "alice", "", 22) == 0.0
    assert meter.charge(MUTATION, "alice", "", 3) == 1.5


def test_a_higher_limit_pays_a_debt_the_sooner() -> None:
    """Eleven days of a byte a second are no second of a mebibyte a second."""
    bucket = TokenBucket(5.0, 1.0, 0.0)
    bucket.take(1 << 20, 0.0)
    assert bucket.find_delay(0.0) == pytest.approx(1 << 20, abs=10)
    bucket.set_limit(1 << 20, 0.0)

    assert bucket.find_delay(0.0) == pytest.approx(1.0, abs=0.01)


def test_a_lower_limit_makes_no_wait_longer() -> None:
    """A use that the higher one allowed was not too much by as much."""
    bucket = TokenBucket(5.0, 1000.0, 0.0)
    bucket.take(7000, 0.0)
    bucket.set_limit(10.0, 0.0)

    assert bucket.find_delay(0.0) == pytest.approx(2.0)
    assert bucket.find_delay(3.0) == 0.0


@given(st.lists(st.tuples(st.floats(1e-320, 1e308), st.floats(0, 1e12)), min_size=1, max_size=20))
def test_no_limit_is_too_small_or_too_large(steps: list[tuple[float, float]]) -> None:
    """A delay is a number of seconds, however odd the limits are that follow each other."""
    bucket = TokenBucket(5.0, 1.0, 0.0)
    for now, (limit, cost) in enumerate(steps):
        bucket.set_limit(limit, now)
        bucket.take(cost, now)
        assert bucket.find_delay(now) >= 0.0


@pytest.mark.slow
def test_names_that_clients_make_up_are_not_kept_without_end() -> None:
    """Each with a debt of a day; the debt of a user is kept beside them."""
    quotas = Quotas()
    quotas.replace({(("client-id", None),): {PRODUCER: 1.0}, (("user", "bob"),): {PRODUCER: 1.0}})
    meter = Meter(quotas, FakeClock(), WINDOWS, WINDOWS)
    assert meter.charge(PRODUCER, "bob", "", 86_400.0) > 86_000
    for number in range(120_000):
        meter.charge(PRODUCER, "alice", f"{number}", 86_400.0)

    assert meter.known_count <= 100_000
    assert meter.charge(PRODUCER, "bob", "", 1.0) > 86_000


def test_long_names_are_not_kept() -> None:
    """A client id may have 32,767 bytes, and each request another one."""
    quotas = Quotas()
    quotas.replace({(("client-id", None),): {PRODUCER: 1.0}})
    meter = Meter(quotas, FakeClock(), WINDOWS, WINDOWS)
    tracemalloc.start()
    for number in range(1000):
        meter.charge(PRODUCER, "alice", f"{number}".rjust(30_000, "x"), 86_400.0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 1 << 20


def test_long_names_that_begin_alike_share_nothing() -> None:
    """And a quota of such a name is found."""
    quotas = Quotas()
    name = "x" * 300
    quotas.replace({(("client-id", None),): {PRODUCER: 1.0}, (("client-id", name),): {PRODUCER: 2}})
    meter = Meter(quotas, FakeClock(), WINDOWS, WINDOWS)

    assert meter.charge(PRODUCER, "alice", name, 14.0) == 2.0
    assert meter.charge(PRODUCER, "alice", f"{name}y", 7.0) == 2.0
    assert meter.charge(PRODUCER, "alice", f"{name}z", 6.0) == 1.0


@pytest.mark.parametrize("key", [PRODUCER, CONNECTION])
def test_a_quota_that_was_removed_leaves_no_debt(key: str) -> None:
    """Also if nobody has asked for anything in between."""
    quotas = Quotas()
    limits: Values = {(("ip" if key == CONNECTION else "user", None),): {key: 1.0}}
    quotas.replace(limits)
    meter = Meter(quotas, FakeClock(), WINDOWS, WINDOWS)

    def ask() -> float:
        if key == CONNECTION:
            return meter.admit("192.0.2.1")
        return meter.charge(key, "alice", "", 1.0)

    assert [ask() for _ in range(6)][-1] > 0
    quotas.replace({})
    meter.look_for_change()
    quotas.replace(limits)

    assert ask() == 0.0
