"""Writes docs/metrics.md from `broker.http.metrics.table`; a test fails when it is stale.

``python -m tools.metrics_page FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.broker.http.metrics.table import METRICS
from siltstone.broker.process.histogram import BOUNDS_SECONDS
from tools.dashboards import judge_public

if TYPE_CHECKING:
    from tools.dashboards import Found

_HEAD = """\
# Metrics

<!-- Written by `make docs` from broker/http/metrics/table.py; do not edit. -->

`GET /metrics` on `http.listener` (by default `127.0.0.1:9464`) answers in Prometheus' text format.
Names are those that jmx_exporter's rules make of Kafka's own metrics, in lower case, for \
the two sets of rules that [public dashboards](#dashboards-made-for-kafka) are made for; \
what Kafka does not have begins with `siltstone_`.
Byte and record counters are kept per topic only: sum over `topic` for the broker.
They begin at 0 with each start of the broker and leave with their topic.
The answer is made in slices of about a millisecond, so a scrape does not hold up clients; \
the first one after a start imports the exporter's library \
and takes some 50 ms longer.
`python_info` and `python_gc_*`, as every Python exporter has them, follow.

| name | type | labels | meaning | source |
| --- | --- | --- | --- | --- |
"""

_TAIL = """\

Quantiles are of the last five minutes and rates of the last minute, as far as scrapes were made \
in them; everything else is counted since the start.
`untyped` are names of rules that give no type.
Durations are counted in fixed buckets, at most (in seconds): {bounds}, and beyond.
Lag is told for at most `metrics.max.lag.series` partitions of groups.

## Dashboards made for Kafka

What well-known dashboards ask a broker for, by metric:

| dashboard | asked | there | of a JVM, ZooKeeper or tiered storage | lacking |
| --- | --- | --- | --- | --- |
{dashboards}
There is no JVM here, so nothing is told under its names: \
the series that begin with `process_` say what the process takes, those with `python_gc_` what \
the collector does.
Fetches are not counted by topic, so the panels of fetch requests a topic stay empty; \
the requests metric has them for the broker, and `bytesout` what topics hand out.
A panel of Confluent's that draws `localtimems` of fetches stays empty, too: their time is not \
measured apart from their wait, and is in `remotetimems`.
`python -m tools.dashboards DASHBOARD.json` prints the same for any other, query by query.

These dashboards choose by labels that Prometheus adds to a target, so its configuration must:

| dashboard | job | labels of the target |
| --- | --- | --- |
| Confluent's | kafka-broker | env, any |
| Confluent's for KRaft | the target twice, as kafka-broker and kafka-controller | env, any |
| Strimzi's | any | namespace, strimzi_io_cluster, kubernetes_pod_name (such as \
CLUSTER-kafka-0), container: kafka, strimzi_io_name |

`docker/prometheus.yml` does so. `docker/grafana` has [two of our own](operating.md#dashboards).

## Other pages

Other pages of the port:

| page | answers |
| --- | --- |
| `GET /healthz` | 200 if every log directory takes a few bytes and an fsync within 5 s \
(tried at most every 5 s), else 503 and a sentence \
for each that does not |
| `GET /readyz` | 200 if the logs are open, no background thread died, and a \
record was appended and fetched through the listener within the last \
second; else 503 and the reason |
| `GET /v1/status` | version, uptime, counts and log directories as JSON |
| `POST /v1/flush` | brings every log to the disk; asks for the bearer token in \
`.siltstone-control-token` of the first log directory |
| `GET /v1/explain` | why each partition is or is not compacted, as JSON; like the next three, for \
`?topic=` and `&partition=` if they are given |
| `POST /v1/dry-run` | what a pass would do now, which it reads the logs for; asks for the token |
| `POST /v1/clean` | has a topic compacted next, with `&force=1` against \
min.compaction.lag.ms; 409 where there is nothing to clean; asks for the token |
| `GET /v1/cleaner-history` | the cleaner's last passes with their receipts, a line of JSON \
each; those that ended since `&since_ms=` |
| `GET /v1/topics` | every topic and how many partitions it has, as JSON |
| `GET /v1/pins` | pins of segment files, how long they last, and what only pins keep on the disk |
| `POST /v1/pins` | links the files of one moment of topics or partitions \
that are named in JSON, and answers the manifest (docs/pipeline.md); asks for the token |
| `POST /v1/pins/renew`, `/v1/pins/release` | begins the lease of a pin again, or ends it; \
`{{"id": …}}`, with the token |
"""


def _tell(found: Found) -> str:
    lacking = ", ".join(f"`{name}`" for name in found.missing) or "-"
    asked = len(found.there) + len(found.foreign) + len(found.missing)
    return (
        f"| {found.dashboard} | {asked} | {len(found.there)} | {len(found.foreign)} | {lacking} |"
    )


def render() -> str:
    """Return the page."""
    rows = [
        "| "
        + " | ".join(
            (
                f"`{metric.series}`",
                metric.kind,
                ", ".join(f"`{label}`" for label in metric.labels) or "-",
                metric.help,
                metric.source,
            )
        )
        + " |\n"
        for metric in METRICS
    ]
    bounds = ", ".join(f"{bound:g}" for bound in BOUNDS_SECONDS)
    dashboards = "".join(_tell(found) + "\n" for found in judge_public())
    return _HEAD + "".join(rows) + _TAIL.format(bounds=bounds, dashboards=dashboards)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
