"""DescribeLogDirs (35), versions 1-5: partitions by log directory, and the room on each disk.

v3 an error for the whole answer · v4 total and usable bytes (KIP-827) · v5 cordoned directories
(KIP-1066). The room on a disk was measured at most a second ago.
"""

from collections.abc import Iterable, Iterator, Sequence

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, DESCRIBE
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ClusterAuthorizationFailed, ErrorCode
from siltstone.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log

# DescribeLogDirsPartition and DescribeLogDirsTopic as bare tuples, which cost less.
Rows = list[tuple[int, int, int, bool]]
Found = dict[LogDirectory, dict[str, Rows]]


async def describe(
    context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """List the requested partitions by log directory."""
    if not context.may(DESCRIBE, CLUSTER):
        return DescribeLogDirsResponse(error_code=ClusterAuthorizationFailed.code)
    share = LoopShare()
    wanted = None if request.topics is None else await _merge(request.topics, share)
    found = await _find_by_directory(context, wanted, share)
    if wanted:
        doomed = list(wanted.values())
        wanted.clear()
        await share.free(doomed)
    return DescribeLogDirsResponse(
        results=[
            _result(directory, found[directory]) for directory in context.services.logs.directories
        ]
    )


async def _merge(
    topics: Sequence[DescribableLogDirTopic], share: LoopShare
) -> dict[str, list[int]]:
    """Return the requested partitions by topic, each once and in order."""
    wanted: dict[str, list[int]] = {}
    for name, partitions in topics:
        wanted.setdefault(name, []).extend(partitions)
        await share.rest()
    in_order: dict[str, list[int]] = {}
    for name in await share.sort_once(list(wanted)):
        in_order[name] = sorted(set(wanted.pop(name)))
        await share.rest()
    return in_order


async def _find_by_directory(
    context: RequestContext, wanted: dict[str, list[int]] | None, share: LoopShare
) -> Found:
    """Return the rows of partitions by directory and topic."""
    found: Found = {each: {} for each in context.services.logs.directories}
    for name, logs in _logs(context, wanted):
        directory: LogDirectory | None = None
        rows: Rows = []
        await share.rest()
        for index, log in logs:
            await share.rest()
            if log is None:
                continue
            end = log.end
            if end.directory is not directory:
                directory = end.directory
                rows = found[directory].setdefault(name, [])
            rows.append((index, end.size, 0, False))
    for future in context.services.logs.futures.copies:
        name, index = future.topic_partition
        if wanted is None or index in wanted.get(name, ()):
            rows = found[future.directory].setdefault(name, [])
            rows.append((index, future.size, future.lag, True))
    return found


def _logs(
    context: RequestContext, wanted: dict[str, list[int]] | None
) -> Iterator[tuple[str, Iterable[tuple[int, Log | None]]]]:
    """Yield topics with the requested partitions and their logs; None for one without a log.

    A topic that does not exist is yielded without partitions, so that others are served in between.
    """
    topics = context.services.topics.topics
    if wanted is None:
        for topic in list(topics.values()):
            yield topic.name, enumerate(topic.logs)
        return
    for name, indexes in wanted.items():
        found = topics.get(name)
        logs = () if found is None else found.logs
        yield name, [(each, logs[each]) for each in indexes if 0 <= each < len(logs)]


def _result(directory: LogDirectory, topics: dict[str, Rows]) -> DescribeLogDirsResult:
    if directory.failure is not None:
        return DescribeLogDirsResult(
            error_code=ErrorCode.kafka_storage_error, log_dir=str(directory.path)
        )
    return DescribeLogDirsResult(
        log_dir=str(directory.path),
        topics=list(topics.items()),  # type: ignore[arg-type]  # bare tuples
        total_bytes=directory.room.total_bytes,
        usable_bytes=directory.room.free_bytes,
    )
