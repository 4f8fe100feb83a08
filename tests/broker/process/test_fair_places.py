"""Places that many addresses want at once."""

import asyncio

import pytest

from siltstone.broker.process.fair_places import FairPlaces


async def begin(places: FairPlaces, address: str, had: list[str]) -> asyncio.Task[None]:
    """Want a place, and note when it is given."""

    async def want() -> None:
        await places.take(address)
        had.append(address)

    task = asyncio.create_task(want())
    await asyncio.sleep(0)
    return task


async def test_addresses_take_turns() -> None:
    """One that wants many places lets each other have one before its next."""
    places, had = FairPlaces(1), list[str]()
    tasks = [await begin(places, address, had) for address in ("a", "a", "a", "a", "b", "b", "c")]
    for _ in tasks:
        await asyncio.sleep(0)
        places.release()
    await asyncio.gather(*tasks)

    assert had == ["a", "a", "b", "c", "a", "b", "a"]


async def test_who_goes_away_takes_no_place() -> None:
    """Neither while it waits, nor if its turn comes at the same moment."""
    places, had = FairPlaces(1), list[str]()
    _, waiting, next_one, last = [await begin(places, address, had) for address in "abcd"]
    waiting.cancel()
    await asyncio.sleep(0)
    places.release()
    next_one.cancel()
    await last

    assert had == ["a", "d"]
    for task in (waiting, next_one):
        with pytest.raises(asyncio.CancelledError):
            await task
    places.release()
    await asyncio.wait_for(places.take("a"), 1)


@pytest.mark.parametrize("also_waiting", ["", "b", "c"])
async def test_a_place_that_is_free_before_a_cancelled_wait_has_ended_is_kept(
    also_waiting: str,
) -> None:
    """A task ends a turn of the loop after its cancellation; a release in between is lost to none.

    It was: `release` failed on the cancelled wait, and with as many of them as there are places no
    password was checked any more.
    """
    places, had = FairPlaces(1), list[str]()
    _, leaving = [await begin(places, address, had) for address in "ab"]
    others = [await begin(places, address, had) for address in also_waiting]
    leaving.cancel()
    places.release()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    if others:
        await asyncio.wait_for(others[0], 1)
        places.release()

    await asyncio.wait_for(places.take("a"), 1)
    assert had == ["a", *also_waiting]
