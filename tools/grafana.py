"""Writes the dashboards for Grafana into docker/grafana; a test fails when they are stale.

``python -m tools.grafana docker/grafana/dashboards``. The code has only the title, the unit and the
queries of each panel.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCHEMA_VERSION: Final = 39
_COLUMNS: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_BROKER: Final = 'instance=~"$instance"'
_TOPIC: Final = f'{_BROKER},topic=~"$topic"'
_RATE: Final = "[$__rate_interval]"
_RED: Final = {"mode": "absolute", "steps": [
    {"color": "green", "value": None}, {"color": "red", "value": 1}
]}  # fmt: skip
_GREEN: Final = {"mode": "absolute", "steps": [
    {"color": "red", "value": None}, {"color": "green", "value": 1}
]}  # fmt: skip
_PLAIN: Final = {"mode": "absolute", "steps": [{"color": "text", "value": None}]}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; ``queries`` are pairs of an expression and the name of its lines."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    help: str = ""
    width: int = 8
    kind: str = "timeseries"
    thresholds: Any = field(default_factory=lambda: _PLAIN)


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; ``uid`` is also the name of its file."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]


def stat(title: str, unit: str, query: str, thresholds: Any = _PLAIN, help: str = "") -> Panel:  # noqa: A002
    """Return a panel that shows one number."""
    return Panel(title, unit, [(query, "")], help, 4, "stat", thresholds)


def _sum(metric: str, by: str = "", chosen: str = "") -> str:
    return f"sum{f' by ({by}) ' if by else ''}({metric}{{{_BROKER}{chosen}}})"


def _rate(metric: str, by: str = "", chosen: str = "") -> str:
    rate = f"rate({metric}{{{_BROKER}{chosen}}}{_RATE})"
    return f"sum{f' by ({by}) ' if by else ''}({rate})"


def _quantiles(metric: str, by: str = "") -> list[tuple[str, str]]:
    rate = _rate(f"{metric}_bucket", f"le, {by}" if by else "le")
    if by:
        return [(f"histogram_quantile(0.99, {rate})", f"{{{{{by}}}}}")]
    return [(f"histogram_quantile({each}, {rate})", f"p{each * 100:g}") for each in (0.5, 0.99)]


def _top(of: str, by: str) -> str:
    return f"topk(10, sum by ({by}) ({of}))"


def _topic_rate(metric: str) -> list[tuple[str, str]]:
    return [(_top(f"rate({metric}{{{_TOPIC}}}{_RATE})", "topic"), "{{topic}}")]


_TOPICS = "kafka_server_brokertopicmetrics"
_CLEANER = "kafka_log_logcleaner"
_MANAGER = "kafka_log_logcleanermanager"
_REQUESTS = "kafka_network_requestmetrics"
_SOCKETS = "kafka_server_socketservermetrics"
_COORDINATOR = "kafka_server_group_coordinator_metrics"
_FREE = "siltstone_log_dir_free_bytes"
_IDLE = "kafka_network_socketserver_networkprocessoravgidle_percent"
_GROUPS = "kafka_coordinator_group_groupmetadatamanager"

DASHBOARDS: Final = (
    Dashboard("siltstone-broker", "Siltstone: broker", "Clients, topics, groups and the process.", (
        Row("Now", (
            stat("Ready", "bool", f"min(siltstone_ready{{{_BROKER}}})", _GREEN,
                 "1 if a record was appended and fetched through the listener just now."),
            stat("Offline partitions", "short",
                 f"sum(kafka_controller_kafkacontroller_offlinepartitionscount{{{_BROKER}}})", _RED,
                 "Partitions whose log directory failed."),
            stat("Dead threads", "short", f"sum(siltstone_dead_threads{{{_BROKER}}})", _RED,
                 "The log has the reason; restart the broker."),
            stat("Topics", "short",
                 f"sum(kafka_controller_kafkacontroller_globaltopiccount{{{_BROKER}}})"),
            stat("Partitions", "short",
                 f"sum(kafka_server_replicamanager_partitioncount{{{_BROKER}}})"),
            stat("Up for", "s", f"time() - max(process_start_time_seconds{{{_BROKER}}})"),
        )),
        Row("Topics", (
            Panel("Bytes in by topic", "Bps", _topic_rate(f"{_TOPICS}_bytesin_total")),
            Panel("Bytes out by topic", "Bps", _topic_rate(f"{_TOPICS}_bytesout_total")),
            Panel("Records in by topic", "cps", _topic_rate(f"{_TOPICS}_messagesin_total")),
            Panel("Size by topic", "bytes",
                  [(_top(f"kafka_log_log_size{{{_TOPIC}}}", "topic"), "{{topic}}")]),
            Panel("Batches in by topic", "cps", _topic_rate("siltstone_batches_in_total"),
                  "Few records a batch cost producers and the broker time: raise linger.ms."),
            Panel("Refused batches by topic", "cps",
                  _topic_rate(f"{_TOPICS}_failedproducerequests_total")),
        )),
        Row("Requests", (
            Panel("Requests by API", "reqps",
                  [(_rate(f"{_REQUESTS}_requests_total", "request"), "{{request}}")]),
            Panel("Errors by code", "cps",
                  [(_rate(f"{_REQUESTS}_errors_total", "request, error", ',error!="NONE"'),
                    "{{request}} {{error}}")]),
            Panel("Time of requests, p99", "s",
                  _quantiles("siltstone_request_seconds", "request"),
                  "The wait of a long poll is in it: Fetch waits for records, JoinGroup for "
                  "members."),
            Panel("Fetches that wait", "short",
                  [(_sum("siltstone_waiting_fetches"), "fetches")]),
            Panel("Connections by listener", "short",
                  [(_sum(f"{_SOCKETS}_connection_count", "listener"), "{{listener}}")]),
            Panel("Connections by software", "short",
                  [(_sum(f"{_SOCKETS}_connections",
                         "client_software_name, client_software_version"),
                    "{{client_software_name}} {{client_software_version}}")]),
        )),
        Row("Groups and transactions", (
            Panel("Lag by group and topic", "short",
                  [(_top(f"kafka_consumergroup_lag{{{_TOPIC}}}", "consumergroup, topic"),
                    "{{consumergroup}} {{topic}}")], width=12),
            Panel("Lag that is not told", "short",
                  [(_sum("siltstone_consumergroup_series_omitted"), "offsets")],
                  "More committed offsets than metrics.max.lag.series."),
            Panel("Groups by protocol", "short",
                  [(_sum(f"{_COORDINATOR}_group_count", "protocol"), "{{protocol}}")]),
            Panel("Classic groups that rebalance", "short",
                  [(f"sum({_GROUPS}_numgroupspreparingrebalance{{{_BROKER}}})", "preparing"),
                   (f"sum({_GROUPS}_numgroupscompletingrebalance{{{_BROKER}}})", "completing")]),
            Panel("Transactions", "short",
                  [(_sum("siltstone_transactions_open"), "open"),
                   (_sum("kafka_server_replicamanager_partitionswithlatetransactionscount"),
                    "partitions with a late one")]),
        )),
        Row("Process", (
            Panel("Event loop: how late", "s", _quantiles("siltstone_event_loop_lag_seconds"),
                  "What every client waits. A few milliseconds are usual."),
            Panel("Event loop: busy", "percentunit",
                  [(f"1 - {_IDLE}{{{_BROKER}}}", "{{instance}}")]),
            Panel("Processor", "percentunit",
                  [(f"rate(process_cpu_seconds_total{{{_BROKER}}}{_RATE})", "{{instance}}")],
                  "1 is one core; threads that compress, read and clean add theirs."),
            Panel("Memory", "bytes",
                  [(f"process_resident_memory_bytes{{{_BROKER}}}", "{{instance}}")]),
            Panel("Open files", "short",
                  [(f"process_open_fds{{{_BROKER}}}", "open"),
                   (f"process_max_fds{{{_BROKER}}}", "limit")]),
        )),
    )),
    Dashboard("siltstone-cleaner", "Siltstone: cleaner and disks",
              "What compaction does and waits for, and the room that is left.", (
        Row("Now", (
            stat("Failed partitions", "short",
                 f"sum({_MANAGER}_uncleanable_partitions_count{{{_BROKER}}})", _RED,
                 "Their last pass failed; siltstone explain --failed says why."),
            stat("Offline log directories", "short",
                 f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{_BROKER}}})", _RED),
            stat("Cleaner threads", "short", f"sum(siltstone_cleaner_threads{{{_BROKER}}})",
                 help="0 before the first compacted topic."),
            stat("Dirtiest log", "percent", f"max({_MANAGER}_max_dirty_percent{{{_BROKER}}})"),
            stat("Least room", "percentunit",
                 f"min({_FREE}{{{_BROKER}}} "
                 f"/ siltstone_log_dir_total_bytes{{{_BROKER}}})"),
            stat("Full in", "s",
                 f"min({_FREE}{{{_BROKER}}} "
                 f"/ clamp_min(-deriv({_FREE}{{{_BROKER}}}[1h]), 1))",
                 help="If it goes on as in the last hour. What takes less than a byte a second "
                      "counts as that."),
        )),
        Row("Cleaner", (
            Panel("Passes", "cps",
                  [(f"sum by (outcome) (rate(siltstone_cleaner_passes_total{{{_BROKER}}}{_RATE}))",
                    "{{outcome}}")]),
            Panel("Bytes of passes", "Bps",
                  [(_rate("siltstone_cleaner_bytes_read_total"), "read"),
                   (_rate("siltstone_cleaner_bytes_written_total"),
                    "written")]),
            Panel("Records dropped by reason", "cps",
                  [(_rate("siltstone_cleaner_records_dropped_total", "reason"), "{{reason}}")]),
            Panel("Dirty ratio", "percentunit",
                  [(f"topk(10, siltstone_cleaner_dirty_ratio{{{_TOPIC}}})",
                    "{{topic}} {{partition}}")],
                  "Cleaned above min.cleanable.dirty.ratio."),
            Panel("Bytes that a pass could clean", "bytes",
                  [(_top(f"siltstone_cleaner_cleanable_bytes{{{_TOPIC}}}", "topic"),
                    "{{topic}}")]),
            Panel("Bytes in partitions that failed", "bytes",
                  [(f"sum by (logdirectory) ({_MANAGER}_uncleanable_bytes{{{_BROKER}}})",
                    "{{logdirectory}}")]),
            Panel("Since a thread looked for work", "ms",
                  [(f"max({_MANAGER}_time_since_last_run_ms{{{_BROKER}}})", "longest")]),
            Panel("Offset map used", "percent",
                  [(f"max({_CLEANER}_max_buffer_utilization_percent{{{_BROKER}}})", "fullest")],
                  "At 100 a pass cleans in parts: raise log.cleaner.dedupe.buffer.size."),
            Panel("Later than max.compaction.lag.ms", "s",
                  [(f"max({_CLEANER}_max_compaction_delay_secs{{{_BROKER}}})", "latest")]),
            Panel("Throttled", "percentunit",
                  [(_rate("siltstone_cleaner_throttle_seconds_total"),
                    "waiting")],
                  "Share of a thread's time that log.cleaner.io.max.bytes.per.second costs."),
        )),
        Row("Disks", (
            Panel("Room that is left", "bytes",
                  [(f"min by (logdirectory) ({_FREE}{{{_BROKER}}})",
                    "{{logdirectory}}")]),
            Panel("Room in a day", "bytes",
                  [(f"min by (logdirectory) (predict_linear({_FREE}{{{_BROKER}}}[6h], 86400))",
                    "{{logdirectory}}")], "If it goes on as in the last six hours."),
            Panel("Size by topic", "bytes",
                  [(_top(f"kafka_log_log_size{{{_TOPIC}}}", "topic"), "{{topic}}")]),
            Panel("Segments by topic", "short",
                  [(_top(f"kafka_log_log_numlogsegments{{{_TOPIC}}}", "topic"), "{{topic}}")]),
            Panel("Disk reads and writes", "Bps",
                  [(_rate("kafka_server_kafkaserver_linux_disk_read_bytes"), "read"),
                   (_rate("kafka_server_kafkaserver_linux_disk_write_bytes"), "written")]),
            Panel("Flushes", "cps",
                  [(_rate("kafka_log_logflushstats_logflushrateandtimems_count"), "flushes")]),
            Panel("Kept by pins alone", "bytes",
                  [(_sum("siltstone_pin_held_bytes"), "bytes")]),
            Panel("Partitions that move", "short",
                  [(_sum("siltstone_log_dir_moves"), "partitions")]),
        )),
    )),
)  # fmt: skip


def render(dashboard: Dashboard) -> str:
    """Return the file of a dashboard."""
    document = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["siltstone", "kafka"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "schemaVersion": _SCHEMA_VERSION,
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": list(_panels(dashboard.rows)),
    }
    return json.dumps(document, indent=2) + "\n"


def _variables() -> Iterator[Any]:
    yield {
        "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
        "hide": 0, "refresh": 1, "includeAll": False, "multi": False,
    }  # fmt: skip
    for name, label, query in (
        ("instance", "Broker", "label_values(siltstone_build_info, instance)"),
        ("topic", "Topic", 'label_values(kafka_log_log_size{instance=~"$instance"}, topic)'),
    ):
        yield {
            "name": name, "label": label, "type": "query", "datasource": _SOURCE,
            "query": {"query": query, "refId": name}, "refresh": 2,
            "sort": 1, "hide": 0, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }  # fmt: skip


def _panels(rows: Sequence[Row]) -> Iterator[Any]:
    top = number = 0
    for row in rows:
        number += 1
        yield {
            "id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
        }  # fmt: skip
        top += 1
        left = 0
        for panel in row.panels:
            height = 4 if panel.kind == "stat" else 8
            if left + panel.width > _COLUMNS:
                left = 0
                top += height
            number += 1
            yield _panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": height})
            left += panel.width
        top += height


def _panel(panel: Panel, number: int, place: Any) -> Any:
    is_stat = panel.kind == "stat"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": panel.thresholds}
            | ({} if is_stat else {"min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}}),
            "overrides": [],
        },
        "options": (
            {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
            if is_stat
            else {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        ),
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": query}
            | ({"legendFormat": name} if name else {})
            for place, (query, name) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    for each in DASHBOARDS:
        Path(sys.argv[1], f"{each.uid}.json").write_text(render(each), encoding="utf-8")
