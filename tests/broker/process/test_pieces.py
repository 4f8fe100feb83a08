"""Long work rests: others are served between its rows and pieces, which come in their order."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import count
from time import perf_counter
from typing import Any

import pytest

from siltstone.broker.api import BY_KEY
from siltstone.broker.process.loop_share import FIRST_PIECE, LoopShare, work_off
from siltstone.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from tests.support.clock import set_seconds

COUNTS = [
    (),
    (0,),
    (FIRST_PIECE - 1,),
    (FIRST_PIECE,),
    (5 * FIRST_PIECE,),
    (0,) * (3 * FIRST_PIECE),
    (FIRST_PIECE - 1, 0, 0, 1),
    (FIRST_PIECE - 2, 1, FIRST_PIECE, 0, 7),
    (1,) * FIRST_PIECE,
    (3, 2 * FIRST_PIECE, 4, 0, 3 * FIRST_PIECE - 1, 1),
]


def topics_of(counts: tuple[int, ...]) -> list[DeleteRecordsTopic]:
    """Return topics of so many partitions."""
    return [
        DeleteRecordsTopic(f"t{number}", [DeleteRecordsPartition(i, i) for i in range(count)])
        for number, count in enumerate(counts)
    ]


@pytest.mark.parametrize("counts", COUNTS)
def test_what_is_cut_is_the_whole(counts: tuple[int, ...]) -> None:
    """Every row comes, and each of its elements once, in their order."""
    topics = topics_of(counts)
    pieces = list(LoopShare().cut(topics, "partitions"))

    joined: dict[str, list[DeleteRecordsPartition]] = {}
    for piece in pieces:
        for topic in piece:
            joined.setdefault(topic.name, []).extend(topic.partitions)
    assert list(joined.items()) == topics
    if len(topics) + sum(counts) <= FIRST_PIECE:
        assert pieces == [topics]
        assert pieces[0] is topics
    else:
        assert sum(len(topic.partitions) + 1 for topic in pieces[0]) <= FIRST_PIECE + 1


def test_few_rows_are_one_piece() -> None:
    """The rows themselves; no row is a piece, too, so that its handler is asked."""
    for rows in ([], list(range(FIRST_PIECE))):
        assert [piece is rows for piece in LoopShare().pieces(rows)] == [True]


@pytest.mark.parametrize(("step", "grows"), [(1e-7, True), (1.0, False)])
def test_pieces_follow_from_the_time_that_they_take(
    monkeypatch: pytest.MonkeyPatch, step: float, grows: bool
) -> None:
    """Quick rows come by more at once, up to twice as many; slow ones one by one."""
    ticks = count()
    set_seconds(monkeypatch, lambda: next(ticks) * step)
    rows = range(20 * FIRST_PIECE)

    pieces = list(LoopShare().pieces(rows))

    assert [each for piece in pieces for each in piece] == list(rows)
    assert [len(piece) for piece in pieces[:3]] == (
        [FIRST_PIECE, 2 * FIRST_PIECE, 4 * FIRST_PIECE] if grows else [FIRST_PIECE, 1, 1]
    )


async def test_the_time_in_the_line_is_not_that_of_a_piece() -> None:
    """A request that waits for others does not go on by smaller pieces."""
    others = [asyncio.create_task(spin_long()) for _ in range(4)]
    await asyncio.sleep(0)
    share = LoopShare()
    sizes = []
    for piece in share.pieces(range(4 * FIRST_PIECE)):
        sizes.append(len(piece))
        await share.turn()
    await asyncio.gather(*others)

    assert sizes[:2] == [FIRST_PIECE, 2 * FIRST_PIECE]


async def spin_long() -> None:
    """Hold the loop for its share, some times."""
    share = LoopShare()
    for _ in range(3):
        spin(0.004)
        await share.rest()


def spin(seconds: float) -> int:
    """Hold the loop."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass
    return 1


def test_sessions_of_ten_thousand_partitions_are_below_the_limits() -> None:
    """As many partitions in as many topics may be asked for wherever clients do."""
    for key in (0, 1, 2, 3, 8, 9, 21, 23, 24, 32, 35, 68, 75):
        assert BY_KEY[key].max_elements >= 20_000


def spin_one(_: object) -> int:
    """Hold the loop for a row."""
    return spin(0.000_05)


def spin_many(rows: Sequence[object]) -> list[int]:
    """Hold the loop for each of some rows."""
    return [spin_one(each) for each in rows]


def steps() -> Iterator[None]:
    """Hold the loop, step by step."""
    for _ in range(200):
        spin_one(None)
        yield


async def job(_: object) -> None:
    """Hold the loop, and wait for nothing."""
    spin_one(None)


WORK: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "each": lambda: LoopShare().each(range(400), spin_one),
    "some": lambda: LoopShare().some(range(800), spin_many),
    "step_through": lambda: LoopShare().step_through(steps()),  # type: ignore[arg-type]
    "work_off": lambda: work_off(range(400), job, 2),
}


@pytest.mark.parametrize("name", WORK)
async def test_others_run_in_between(name: str) -> None:
    """Rows, pieces, steps and jobs that never wait let others have the loop all the same."""
    turns = 0

    async def go_round() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(go_round())
    result = await WORK[name]()
    beside.cancel()

    assert turns > 2
    assert result in ([1] * 400, [1] * 800, None)


async def test_sorted_texts_come_once() -> None:
    """However many pieces they were sorted by."""
    texts = [f"{number * 7919 % 3000:04}" for number in range(6000)]

    assert await LoopShare().sort_once(texts) == sorted(set(texts))
    assert await LoopShare().sort_once([]) == []


async def test_all_parts_are_freed() -> None:
    """They go from the end."""
    parts = list(range(5 * FIRST_PIECE))
    await LoopShare().free(parts)
    assert parts == []


async def test_a_share_that_is_not_over_costs_no_turn() -> None:
    """Small requests are answered in the turn they came in."""

    async def rest() -> str:
        await LoopShare(60.0).rest()
        return "at once"

    with pytest.raises(StopIteration, match="at once"):
        rest().send(None)
