"""A broker under test for asyncio code: the loop goes on while the broker starts or answers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from siltstone.testing.kafka import Kafka, broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from datetime import timedelta
    from os import PathLike

__tracebackhide__ = True

P = ParamSpec("P")
T = TypeVar("T")


class AsyncKafka:
    """A broker whose methods are awaited; ``sync`` is the same broker without await.

    The methods do the same as those of `siltstone.testing.Kafka`, which are documented there.
    """

    def __init__(self, kafka: Kafka) -> None:
        self.sync = kafka

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address, as ``127.0.0.1:41234``."""
        return self.sync.bootstrap_servers

    @property
    def listeners(self) -> dict[str, str]:
        """The address of each listener by its name."""
        return self.sync.listeners

    async def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic and return its name."""
        return await _in_thread(self.sync.create_topic, name, partitions=partitions, config=config)

    async def delete_topic(self, *names: str) -> None:
        """Delete topics."""
        await _in_thread(self.sync.delete_topic, *names)

    async def topics(self) -> list[str]:
        """Return the names of the topics."""
        return await _in_thread(self.sync.topics)

    async def clear(self) -> None:
        """Delete all topics, and all groups without members."""
        await _in_thread(self.sync.clear)

    @asynccontextmanager
    async def restored(self) -> AsyncIterator[None]:
        """After the block, put the broker back into its present state."""
        restored = self.sync.restored()
        await _in_thread(restored.__enter__)
        try:
            yield
        finally:
            await _in_thread(restored.__exit__, None, None, None)

    async def compact(self, topic: str) -> None:
        """Compact a topic now."""
        await _in_thread(self.sync.compact, topic)

    async def advance(self, by: timedelta) -> None:
        """Let time pass for the broker."""
        await _in_thread(self.sync.clock.advance, by)

    async def fail_next(
        self, api: str, *, error: str, times: int = 1, topic: str | None = None
    ) -> None:
        """Make the next requests of an API fail."""
        await _in_thread(self.sync.fail_next, api, error=error, times=times, topic=topic)

    async def slow(self, what: str, seconds: float) -> None:
        """Make the disk or an API slow."""
        await _in_thread(self.sync.slow, what, seconds)

    async def pause(self) -> None:
        """Pause the process."""
        await _in_thread(self.sync.pause)

    async def resume(self) -> None:
        """Let the process go on."""
        await _in_thread(self.sync.resume)

    async def kill(self) -> None:
        """End the process by SIGKILL."""
        await _in_thread(self.sync.kill)

    async def restart(self) -> None:
        """Start the broker again, with the same folder and ports."""
        await _in_thread(self.sync.restart)

    async def heal(self) -> None:
        """End all faults."""
        await _in_thread(self.sync.heal)


@asynccontextmanager
async def async_broker(
    settings: Mapping[str, object] | None = None,
    *,
    folder: str | PathLike[str] | None = None,
) -> AsyncIterator[AsyncKafka]:
    """Run a broker during a block.

    Raises:
        StartFailed: There is no port or folder for the broker, or it does not start.
    """
    running = broker(settings, folder=folder)
    kafka = await _in_thread(running.__enter__)
    try:
        yield AsyncKafka(kafka)
    finally:
        await _in_thread(running.__exit__, None, None, None)


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio  # noqa: PLC0415  # 50 ms, which tests without it need not wait for

    return await asyncio.to_thread(function, *args, **kwargs)
