"""Parked fetches: woken by growth, by force, by their deadline, by the end of the broker."""

import asyncio

from broker.waiting import Waiting


class GrowingLog:
    """A log as far as waiting is concerned: who stands on it."""

    def __init__(self) -> None:
        self.waiters: list[object] = []
        self.available = 0


def _log() -> GrowingLog:
    return GrowingLog()


async def test_growth_releases_only_who_has_enough() -> None:
    """A waiter whose condition is not met stays parked."""
    waiting, log = Waiting(), _log()
    small = asyncio.create_task(waiting.wait([log], lambda: log.available >= 1, 60))  # type: ignore[list-item]
    large = asyncio.create_task(waiting.wait([log], lambda: log.available >= 9, 60))  # type: ignore[list-item]
    await asyncio.sleep(0)
    log.available = 5
    waiting.wake(log)  # type: ignore[arg-type]
    await small

    assert not large.done()
    assert waiting.count == 1
    waiting.release(log)  # type: ignore[arg-type]
    await large
    assert log.waiters == []


async def test_the_deadline_releases_without_data() -> None:
    """An empty answer after ``max_wait_ms`` is what the client asked for."""
    waiting, log = Waiting(), _log()
    await waiting.wait([log], lambda: False, 0.001)  # type: ignore[list-item]

    assert waiting.count == 0
    assert log.waiters == []


async def test_closing_releases_all_and_parks_nobody() -> None:
    """At shutdown every long poll is answered at once, later ones too."""
    waiting, log = Waiting(), _log()
    parked = asyncio.create_task(waiting.wait([log], lambda: False, 60))  # type: ignore[list-item]
    await asyncio.sleep(0)
    waiting.close()
    await parked
    await waiting.wait([log], lambda: False, 60)  # type: ignore[list-item]

    assert waiting.count == 0


async def test_a_cancelled_fetch_leaves_nothing_behind() -> None:
    """A client that goes away does not stay on the log's list."""
    waiting, log = Waiting(), _log()
    parked = asyncio.create_task(waiting.wait([log], lambda: False, 60))  # type: ignore[list-item]
    await asyncio.sleep(0)
    parked.cancel()
    await asyncio.gather(parked, return_exceptions=True)

    assert waiting.count == 0
    assert log.waiters == []
