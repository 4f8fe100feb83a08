"""DescribeLogDirs (35), versions 1-5: what lies in each log directory, and the room on its disk.

v3 error for the whole · v4 total and usable bytes (KIP-827) · v5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.context import RequestContext
    from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
    from storage.log import Log
    from storage.log_directory import LogDirectory

_UNKNOWN = -1


async def describe(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """List the partitions asked for by directory; the disks are asked on a thread."""
    wanted = None
    if request.topics is not None:
        wanted = {(each.topic, index) for each in request.topics for index in each.partitions}
    directories = context.rooms.logs.directories
    rooms_left = await context.rooms.io.run(_measure, directories)
    found = _by_directory(context, wanted)
    return DescribeLogDirsResponse(
        results=[
            _result(directory, found.get(directory, {}), room)
            for directory, room in zip(directories, rooms_left, strict=True)
        ]
    )


def _by_directory(
    context: RequestContext, wanted: set[tuple[str, int]] | None
) -> dict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]]:
    found: dict[LogDirectory, dict[str, list[DescribeLogDirsPartition]]] = {}
    for name, index, log in _logs(context, wanted):
        partition = DescribeLogDirsPartition(index, log.size)
        found.setdefault(log.directory, {}).setdefault(name, []).append(partition)
    for (topic_name, index), future in context.rooms.logs.futures.under_way.items():
        if wanted is None or (topic_name, index) in wanted:
            partition = DescribeLogDirsPartition(
                index, future.size, offset_lag=future.lag, is_future_key=True
            )
            found.setdefault(future.directory, {}).setdefault(topic_name, []).append(partition)
    return found


def _logs(
    context: RequestContext, wanted: set[tuple[str, int]] | None
) -> Iterator[tuple[str, int, Log]]:
    topics = context.rooms.topics.topics
    if wanted is None:
        for topic in topics.values():
            for index, log in enumerate(topic.logs):
                if log is not None:
                    yield topic.name, index, log
        return
    for name, index in sorted(wanted):
        found = topics.get(name)
        if found is not None and 0 <= index < found.partitions:
            log = found.logs[index]
            if log is not None:
                yield name, index, log


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
            disk = os.statvfs(directory.path)
        except OSError:
            rooms.append((_UNKNOWN, _UNKNOWN))
        else:
            rooms.append((disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize))
    return rooms
