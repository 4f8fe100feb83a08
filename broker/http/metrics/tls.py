"""The metrics of TLS: handshakes, and when certificates expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.http.metrics.metric import Row
    from siltstone.broker.http.metrics.sources import MetricSources


def _expiries(sources: MetricSources) -> Iterator[Row]:
    if sources.certificates is not None:
        for listener, each in sources.certificates.handshakes.items():
            yield (listener,), each.endpoint.certificate.not_after.timestamp()


def _handshakes(sources: MetricSources) -> Iterator[Row]:
    if sources.certificates is not None:
        for listener, each in sources.certificates.handshakes.items():
            yield (listener, "succeeded"), each.succeeded
            yield (listener, "failed"), each.failed


# fmt: off
TLS_METRICS = (
    Metric("gauge", "siltstone_certificate_expiry_timestamp_seconds", ("listener",),
           "When the certificate that clients of a listener are shown expires, in Unix time.",
           "`Endpoints`", _expiries),
    Metric("counter", "siltstone_tls_handshakes", ("listener", "result"),
           "Handshakes of TLS since the start, by how they ended.",
           "`Handshakes` of each listener", _handshakes),
)
# fmt: on
