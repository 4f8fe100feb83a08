"""DescribeLogDirs (35), versions 1-5: what lies in each log directory, and the room on its disk.

v3 error for the whole · v4 total and usable bytes (KIP-827) · v5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.process.loop_share import finish_in_shares, free, sort_once
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from siltstone.storage import files

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.describe_log_dirs import (
        DescribableLogDirTopic,
        DescribeLogDirsRequest,
    )
    from siltstone.storage.directory.log_directory import LogDirectory
    from siltstone.storage.log.log import Log

_UNKNOWN = -1


async def describe(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """List the partitions asked for by directory; the disks are asked on a thread."""
    wanted = None if request.topics is None else await finish_in_shares(_wanted(request.topics))
    directories = context.rooms.logs.directories
    rooms_left = await context.rooms.io.run(_measure, directories)
    found = await finish_in_shares(_by_directory(context, wanted))
    if wanted:
        doomed = list(wanted.values())
        wanted.clear()
        await free(doomed)
    return DescribeLogDirsResponse(
        results=[
            _result(directory, found.get(directory, {}), room)
            for directory, room in zip(directories, rooms_left, strict=True)
        ]
    )


def _wanted(
    topics: Sequence[DescribableLogDirTopic],
) -> Generator[None, None, dict[str, list[int]]]:
    """Return the partitions asked for by topic, each once and in order."""
    wanted: dict[str, list[int]] = {}
    for name, partitions in topics:
        wanted.setdefault(name, []).extend(partitions)
        yield
    in_order: dict[str, list[int]] = {}
    for name in (yield from sort_once(list(wanted))):
        in_order[name] = sorted(set(wanted.pop(name)))
        yield
    return in_order


def _by_directory(
    context: RequestContext, wanted: dict[str, list[int]] | None
) -> Generator[None, None, dict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]]]:
    found: dict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]] = {}
    for name, index, log in _logs(context, wanted):
        yield
        if log is None:
            continue
        partition = DescribeLogDirsPartition(index, log.size)
        found.setdefault(log.directory, {}).setdefault(name, []).append(partition)
    for future in context.rooms.logs.futures.copies:
        topic_name, index = future.topic_partition
        if wanted is None or index in wanted.get(topic_name, ()):
            partition = DescribeLogDirsPartition(
                index, future.size, offset_lag=future.lag, is_future_key=True
            )
            found.setdefault(future.directory, {}).setdefault(topic_name, []).append(partition)
    return found


def _logs(
    context: RequestContext, wanted: dict[str, list[int]] | None
) -> Iterator[tuple[str, int, Log | None]]:
    """Yield partitions with their logs, or None where there is none."""
    topics = context.rooms.topics.topics
    if wanted is None:
        for topic in list(topics.values()):
            for index, log in enumerate(topic.logs):
                yield topic.name, index, log
        return
    for name, indexes in wanted.items():
        found = topics.get(name)
        for index in indexes:
            is_there = found is not None and 0 <= index < found.partitions
            yield name, index, found.logs[index] if found is not None and is_there else None


def _result(
    directory: LogDirectory,
    topics: dict[str, list[DescribeLogDirsPartition]],
    room: tuple[int, int],
) -> DescribeLogDirsResult:
    if directory.failure is not None:
        return DescribeLogDirsResult(
            error_code=ErrorCode.kafka_storage_error, log_dir=str(directory.path)
        )
    total, usable = room
    return DescribeLogDirsResult(
        log_dir=str(directory.path),
        topics=[DescribeLogDirsTopic(name, partitions) for name, partitions in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def _measure(directories: Sequence[LogDirectory]) -> list[tuple[int, int]]:
    """Return total and usable bytes of each directory's disk, -1 if it does not say. Blocks."""
    rooms = []
    for directory in directories:
        try:
            usable, total = files.find_room(directory.path)
        except OSError:
            usable, total = _UNKNOWN, _UNKNOWN
        rooms.append((total, usable))
    return rooms
