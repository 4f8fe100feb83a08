"""How requests that cost much share the loop with each other, and with everybody else."""

import asyncio
from collections import Counter
from itertools import count
from typing import Any, NamedTuple, Self

import pytest

from siltstone.broker.process import loop_share
from siltstone.broker.process.loop_share import FIRST_PIECE, SECONDS, LoopShare
from tests.support.clock import set_seconds

STEPS = 5


class Turns:
    """Counts the turns of the loop while tasks run."""

    def __init__(self) -> None:
        self.now = 0
        self._is_over = False

    def __enter__(self) -> Self:
        """Begin to count."""
        self._next()
        return self

    def __exit__(self, *_: object) -> None:
        """Cease to count."""
        self._is_over = True

    def _next(self) -> None:
        self.now += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._next)


@pytest.fixture(autouse=True)
def _slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every step of everybody take more than its share."""
    ticks = count(1)
    set_seconds(monkeypatch, lambda: float(next(ticks)))


async def work(turns: Turns, steps: Counter[int], seconds: float = SECONDS) -> None:
    """Do some steps, and note in which turn each of them comes that has waited."""
    share = LoopShare(seconds)
    for _ in range(STEPS):
        await share.rest()
        steps[turns.now] += 1


async def test_one_goes_on_in_a_turn() -> None:
    """However many have more to do than fits into a share, others wait for one of them."""
    steps: Counter[int] = Counter()
    with Turns() as turns:
        await asyncio.gather(*(work(turns, steps) for _ in range(20)))

    assert steps.total() == 20 * STEPS
    assert max(steps.values()) == 1


async def test_those_with_small_shares_go_on_together() -> None:
    """As many go on in one turn as fit into a share."""
    steps: Counter[int] = Counter()
    with Turns() as turns:
        await asyncio.gather(*(work(turns, steps, SECONDS / 4) for _ in range(20)))

    assert steps.total() == 20 * STEPS
    assert max(steps.values()) == 4


async def test_who_comes_later_stands_behind_those_who_wait() -> None:
    """The first share of a newcomer ends at once where others wait for theirs."""
    order: list[str] = []

    async def go(name: str) -> None:
        share = LoopShare()
        await share.rest()
        order.append(name)

    first = asyncio.create_task(go("first"))
    await asyncio.sleep(0)
    await go("second")
    await first

    assert order == ["first", "second"]


async def test_little_work_does_not_wait_behind_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small request is answered in its turn, also where large ones wait for theirs."""
    with Turns() as turns:
        large = [asyncio.create_task(work(turns, Counter())) for _ in range(20)]
        await asyncio.sleep(0)
        set_seconds(monkeypatch, lambda: 1e9)
        before = turns.now
        await LoopShare().rest()
        assert turns.now == before
        await asyncio.gather(*large)


class Elements(tuple[int, ...]):
    """Elements that count how many of them are taken out."""

    __slots__ = ()
    taken = 0

    def __getitem__(self, index: Any) -> Any:
        """Return some of them."""
        some = Elements(super().__getitem__(index))
        Elements.taken += len(some)
        return some


class Row(NamedTuple):
    """A row with an array."""

    name: str
    elements: tuple[int, ...]


def test_what_is_cut_is_copied_once() -> None:
    """A long array costs no more by the piece, however small the pieces get."""
    rows = [Row("a", Elements(range(300))), Row("b", ()), Row("c", Elements(range(300, 1000)))]
    Elements.taken = 0

    cut = [row for piece in LoopShare().cut(rows, "elements") for row in piece]

    assert [each for row in cut for each in row.elements] == list(range(1000))
    assert list(dict.fromkeys(row.name for row in cut)) == ["a", "b", "c"]
    assert Elements.taken == 1000


async def test_many_are_counted_in_pieces() -> None:
    """As often as they come, by themselves or by a key of each."""
    texts = [str(number % 7) for number in range(3 * FIRST_PIECE)]
    with Turns() as turns:
        assert await LoopShare().count(texts) == Counter(texts)
        assert await LoopShare().count(texts, int) == Counter(map(int, texts))

    assert turns.now > 2


async def test_one_that_has_gone_leaves_the_line() -> None:
    """Nobody waits in it, so what begins then has a whole share."""
    with Turns() as turns:
        gone = [asyncio.create_task(work(turns, Counter())) for _ in range(9)]
        await asyncio.sleep(0)
        assert loop_share._busy
        for each in gone:
            each.cancel()
        await asyncio.wait(gone)

    assert not loop_share._busy


async def test_one_that_has_gone_holds_up_nobody() -> None:
    """A request whose connection was cut while it waited has no turn."""
    steps: Counter[int] = Counter()
    with Turns() as turns:
        gone = asyncio.create_task(work(turns, steps))
        stays = asyncio.create_task(work(turns, Counter()))
        await asyncio.sleep(0)
        gone.cancel()
        await stays

    assert steps.total() == 0
    assert gone.cancelled()


async def test_few_are_under_way_at_a_time() -> None:
    """Those that have begun first are done before others go on: what is half made takes memory."""
    ends: list[int] = []
    under_way: set[int] = set()
    most = 0

    async def go(number: int) -> None:
        nonlocal most
        await LoopShare().rest()
        for _ in range(STEPS):
            under_way.add(number)
            most = max(most, len(under_way))
            await LoopShare().rest()
        under_way.discard(number)
        ends.append(number)

    await asyncio.gather(*(go(number) for number in range(50)))

    assert sorted(ends[:4]) == list(range(4))
    assert most <= 5
