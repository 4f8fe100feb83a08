"""The metrics of quotas and limits: how often they delayed or refused clients."""

from collections.abc import Iterator
from typing import Final

from siltstone.broker.http.metrics.metric import Metric, Row, each_of, one_of, rows_of
from siltstone.broker.http.metrics.metric_sources import MetricSources
from siltstone.storage.appending.refused_batches import UNFOLDS_TOO_FAR
from siltstone.storage.producers.entry import ALL_PRODUCERS_LIMIT, PRODUCER_LIMIT

_OF_BATCHES: Final = {
    PRODUCER_LIMIT: "producer.ids.max.count",
    ALL_PRODUCERS_LIMIT: "producer.states.max.count",
    UNFOLDS_TOO_FAR: "decompressed bytes",
}


def _refused(sources: MetricSources) -> Iterator[Row]:
    if sources.limits is not None:
        for limit, count in sources.limits.refused.items():
            yield (limit,), count
    for name, limit in _OF_BATCHES.items():
        yield (limit,), sources.requests.invalid_records[name]


_rows_of_meter = rows_of(lambda sources: None if sources.meter is None else sources.meter.built)
_of_buffers = one_of(lambda sources: sources.buffers)


# fmt: off
QUOTA_METRICS = (
    Metric("counter", "siltstone_quota_throttled", ("quota",),
           "Answers that made a client wait since it was above a quota, and connections that were "
           "closed for it, by the kind of quota.",
           "`Meter`, from the first quota on",
           _rows_of_meter(each_of(lambda meter: meter.throttled))),
    Metric("counter", "siltstone_quota_throttle_seconds", ("quota",),
           "How long clients had to wait for it, all together.",
           "`Meter`, from the first quota on",
           _rows_of_meter(each_of(lambda meter: meter.seconds))),
    Metric("counter", "siltstone_limit_refused", ("limit",),
           "Connections, requests and batches that were refused, or had to wait, because of a "
           "limit, by the setting or what else it is.",
           "`Limits`", _refused),
    Metric("gauge", "siltstone_request_bytes_held", (),
           "Bytes of requests that have arrived and are not served; queued.max.request.bytes "
           "limits them.",
           "`Buffers`", _of_buffers(lambda buffers: buffers.received_bytes)),
    Metric("gauge", "siltstone_response_bytes_held", (),
           "Bytes of answers that their clients have not read; queued.max.response.bytes limits "
           "them.",
           "`Unread`", _of_buffers(lambda buffers: buffers.unread.size)),
)
# fmt: on
