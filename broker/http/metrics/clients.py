"""The metrics that tell how much clients tell of themselves."""

from __future__ import annotations

from siltstone.broker.http.metrics.metric import Metric, single

# fmt: off
CLIENT_METRICS = (
    Metric("gauge", "siltstone_telemetry_clients", (),
           "Clients that pushed metrics of themselves lately; they stand at the end of the page.",
           "`Telemetry`", single(lambda sources: sources.clients.clients)),
    Metric("gauge", "siltstone_client_series_omitted", (),
           "Series of clients that are not told: more than metrics.max.client.series.",
           "`Telemetry`", single(lambda sources: sources.clients.omitted)),
)
# fmt: on
