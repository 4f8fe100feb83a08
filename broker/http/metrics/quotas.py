"""The metrics of quotas and limits: how often a client was held by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.http.metrics.metric import Metric, single
from siltstone.storage.appending.refused_batches import (
    ALL_PRODUCERS_LIMIT,
    PRODUCER_LIMIT,
    UNFOLDS_TOO_FAR,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.http.metrics.metric import Row
    from siltstone.broker.http.metrics.sources import MetricSources


_OF_BATCHES: Final = {
    PRODUCER_LIMIT: "producer.ids.max.count",
    ALL_PRODUCERS_LIMIT: "producer.states.max.count",
    UNFOLDS_TOO_FAR: "decompressed bytes",
}


def _throttled(sources: MetricSources) -> Iterator[Row]:
    if sources.meter is not None and sources.meter.built is not None:
        for key, count in sources.meter.built.throttled.items():
            yield (key,), count


def _seconds(sources: MetricSources) -> Iterator[Row]:
    if sources.meter is not None and sources.meter.built is not None:
        for key, seconds in sources.meter.built.seconds.items():
            yield (key,), seconds


def _refused(sources: MetricSources) -> Iterator[Row]:
    if sources.limits is not None:
        for limit, count in sources.limits.refused.items():
            yield (limit,), count
    for name, limit in _OF_BATCHES.items():
        yield (limit,), sources.requests.invalid_records[name]


def _held_bytes(sources: MetricSources) -> float:
    return 0 if sources.buffers is None else sources.buffers.received_bytes


def _unread_bytes(sources: MetricSources) -> float:
    return 0 if sources.buffers is None else sources.buffers.unread.size


# fmt: off
QUOTA_METRICS = (
    Metric("counter", "siltstone_quota_throttled", ("quota",),
           "Answers that made a client wait since it was above a quota, and connections that were "
           "closed for it, by the kind of quota.",
           "`Meter`, from the first quota on", _throttled),
    Metric("counter", "siltstone_quota_throttle_seconds", ("quota",),
           "How long clients had to wait for it, all together.",
           "`Meter`, from the first quota on", _seconds),
    Metric("counter", "siltstone_limit_refused", ("limit",),
           "Connections, requests and batches that were refused, or had to wait, because of a "
           "limit, by the setting or what else it is.",
           "`Limits`", _refused),
    Metric("gauge", "siltstone_request_bytes_held", (),
           "Bytes of requests that have arrived and are not served; queued.max.request.bytes "
           "limits them.",
           "`Buffers`", single(_held_bytes)),
    Metric("gauge", "siltstone_response_bytes_held", (),
           "Bytes of answers that their clients have not read; queued.max.response.bytes limits "
           "them.",
           "`Unread`", single(_unread_bytes)),
)
# fmt: on
