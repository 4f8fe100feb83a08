"""Requests that are handled in pieces are answered as a whole would be."""

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Any, get_args

import pytest

from siltstone.broker.api import APIS, BY_KEY, Api
from siltstone.broker.net.slices import ELEMENTS, Slices, handle_in_slices
from siltstone.broker.process.loop_share import (
    LoopShare,
    describe_each,
    finish,
    finish_in_shares,
    work_off,
)
from siltstone.protocol.core import grid_of
from siltstone.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

SLICES = Slices("topics", "topics", "partitions", "partitions")


def request_of(*counts: int) -> DeleteRecordsRequest:
    """Return a request with topics of so many partitions."""
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(f"t{number}", [DeleteRecordsPartition(i, i) for i in range(count)])
            for number, count in enumerate(counts)
        ]
    )


def answer(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Answer each partition by its number and the offset asked."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    DeleteRecordsPartitionResult(each.partition_index, each.offset, 0)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.mark.parametrize(
    "counts",
    [
        (ELEMENTS + 1,),
        (5 * ELEMENTS,),
        (0,) * (3 * ELEMENTS),
        (ELEMENTS - 1, 0, 0, 1),
        (ELEMENTS - 2, 1, ELEMENTS, 0, 7),
        (1,) * ELEMENTS,
        (3, 2 * ELEMENTS, 4, 0, 3 * ELEMENTS - 1, 1),
    ],
)
async def test_pieces_are_answered_as_the_whole(counts: tuple[int, ...]) -> None:
    """Rows and their partitions stand where they stood, whether or not they were cut."""
    request = request_of(*counts)
    pieces: list[int] = []

    def handler(context: None, piece: DeleteRecordsRequest) -> DeleteRecordsResponse:
        del context
        pieces.append(len(piece.topics) + sum(len(each.partitions) for each in piece.topics))
        return answer(piece)

    assert SLICES.is_large(request)
    assert await handle_in_slices(SLICES, handler, None, request) == answer(request)
    assert len(pieces) > 1
    assert max(pieces) <= ELEMENTS + 1


async def test_a_row_that_was_cut_may_be_answered_by_grids() -> None:
    """They come to one list."""
    request = request_of(2 * ELEMENTS + 1)

    def handler(context: None, piece: DeleteRecordsRequest) -> DeleteRecordsResponse:
        del context
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(topic.name, grid_of(topic.partitions, 2))
                for topic in piece.topics
            ]
        )

    answered = await handle_in_slices(SLICES, handler, None, request)
    assert answered.topics == [("t0", request.topics[0].partitions)]


def test_small_requests_are_not_cut() -> None:
    """What has as many elements as a piece is handled at once; null is no element."""
    assert not SLICES.is_large(request_of(ELEMENTS - 1))
    assert not Slices("rows", "rows").is_large(_Null(None))


class _Null:
    def __init__(self, rows: Any) -> None:
        self.rows = rows


@pytest.mark.parametrize("api", [api for api in APIS if api.slices], ids=lambda api: api.name)
def test_slices_name_arrays_of_the_messages(api: Api) -> None:
    """The rows of both, and what may be cut in them, are fields of the tables."""
    slices = api.slices
    assert slices is not None
    for message, rows, nested in (
        (0, slices.rows, slices.nested),
        (1, slices.answer_rows, slices.answer_nested),
    ):
        annotations = api.load_messages()[message].struct.__annotations__
        assert "[]" in annotations[rows].__metadata__[0]
        if nested:
            (row,) = {
                each
                for each in _arguments(annotations[rows])
                if isinstance(each, type) and hasattr(each, "_fields")
            }
            assert "[]" in row.__annotations__[nested].__metadata__[0]


def _arguments(annotation: Any) -> Iterator[Any]:
    yield annotation
    for each in get_args(annotation):
        yield from _arguments(each)


def test_sessions_of_ten_thousand_partitions_are_below_the_limits() -> None:
    """As many partitions in as many topics may be asked for wherever clients do."""
    for key in (0, 1, 2, 3, 8, 9, 21, 23, 24, 32, 35, 68, 75):
        assert BY_KEY[key].max_elements >= 20_000


async def test_others_run_between_pieces() -> None:
    """Rows, steps and jobs that never wait let others have the loop all the same."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def spin(_: int) -> int:
        end = perf_counter() + 0.000_05
        while perf_counter() < end:
            pass
        return 1

    def steps() -> Iterator[None]:
        for number in range(200):
            spin(number)
            yield

    async def job(number: int) -> None:
        spin(number)

    beside = asyncio.create_task(count())
    seen = []
    assert await describe_each(range(400), spin) == [1] * 400
    seen.append(turns)
    await finish_in_shares(steps())  # type: ignore[arg-type]  # its value is of no interest
    seen.append(turns)
    await work_off(range(400), job, 2)
    seen.append(turns)
    beside.cancel()

    assert [later - before > 2 for before, later in zip([0, *seen], seen, strict=False)] == [
        True,
        True,
        True,
    ]
    assert finish(_seven()) == 7


def _seven() -> Any:
    yield
    return 7


async def test_a_share_that_is_not_over_costs_no_turn() -> None:
    """Small requests are answered in the turn they came in."""
    share = LoopShare(60.0)
    rest = share.rest()
    with pytest.raises(StopIteration):
        rest.send(None)
