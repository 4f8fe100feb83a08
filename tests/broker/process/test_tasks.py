"""The tasks of one owner: held, waited for, cancelled, and heard of when they fail."""

import asyncio
import gc
from weakref import ref

import pytest

from siltstone.broker.process.tasks import Tasks, to_its_end


async def test_what_has_begun_goes_on_without_who_began_it() -> None:
    """A request that is cancelled leaves what it began; `finish` waits for that."""
    tasks, gate = Tasks(), asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await gate.wait()
        done.append("work")

    async def request() -> None:
        await asyncio.shield(tasks.start(work(), "work"))

    client = asyncio.create_task(request())
    await asyncio.sleep(0)
    client.cancel()
    await asyncio.gather(client, return_exceptions=True)
    gate.set()
    await tasks.finish()

    assert done == ["work"]
    assert not len(tasks)


async def test_finish_waits_for_tasks_that_tasks_begin() -> None:
    """A task that is begun while it waits is waited for, too."""
    tasks = Tasks()
    done: list[str] = []

    async def second() -> None:
        await asyncio.sleep(0)
        done.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        tasks.start(second(), "second")
        done.append("first")

    tasks.start(first(), "first")
    await tasks.finish()

    assert done == ["first", "second"]


async def test_cancel_returns_when_all_have_ended() -> None:
    """Also of a task that cleans up after it was cancelled."""
    tasks = Tasks()
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    tasks.start(work("a"), "a")
    tasks.start(work("b"), "b")
    await asyncio.sleep(0)
    await tasks.cancel()

    assert sorted(ended) == ["a", "b"]
    assert not len(tasks)


async def test_only_who_failed_is_told_of() -> None:
    """Neither what has ended well nor what was cancelled; by name."""
    failed: list[str] = []
    tasks = Tasks(lambda task: failed.append(task.get_name()))

    async def well() -> None:
        return

    async def badly() -> None:
        raise OSError("broken")

    tasks.start(well(), "well")
    tasks.start(badly(), "badly")
    waiting = tasks.start(asyncio.Event().wait(), "waiting")
    await asyncio.sleep(0)
    waiting.cancel()
    await tasks.finish()

    assert failed == ["badly"]


async def test_a_task_is_held_until_it_ends() -> None:
    """The loop alone would let the collector take a task that waits for something forgotten."""
    tasks = Tasks()

    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    task = ref(tasks.start(work(), "work"))
    await asyncio.sleep(0)
    gc.collect()

    assert task() is not None
    await tasks.cancel()


async def test_who_awaits_a_task_gets_its_error() -> None:
    """It is for the caller, where nobody else is to be told."""
    tasks = Tasks()

    async def badly() -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await tasks.start(badly(), "badly")


@pytest.mark.parametrize(("error", "told"), [(ValueError("expected"), 0), (OSError("other"), 1)])
async def test_what_is_awaited_by_nobody_any_more_fails(error: Exception, told: int) -> None:
    """It ends; what was expected is dropped, and anything else is told once."""
    tasks, gate = Tasks(), asyncio.Event()
    told_of: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, each: told_of.append(each))

    async def work() -> None:
        await gate.wait()
        raise error

    async def request() -> None:
        await to_its_end(tasks.start(work(), "work"), ValueError)

    client = asyncio.create_task(request())
    await asyncio.sleep(0)
    client.cancel()
    await asyncio.gather(client, return_exceptions=True)
    gate.set()
    await tasks.finish()
    await asyncio.sleep(0)
    del client
    gc.collect()

    assert len(told_of) == told
