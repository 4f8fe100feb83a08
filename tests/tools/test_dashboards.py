"""Queries of dashboards are read right, and public ones find as much as docs/metrics.md says."""

import json
from pathlib import Path

import pytest

from tools.dashboards import Asked, find_missing, judge_public, main, read_asked, read_queries


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("up_time", [("up_time", "")]),
        ('sum(rate(a_b_total{job="x",topic=~"$t",le!=""}[5m])) by (pod_name)',
         [("a_b_total", "job le topic")]),
        ("sum without(some_label)(a_b) / on(other_label) c_d", [("a_b", ""), ("c_d", "")]),
        ('histogram_quantile(0.9, a_bucket{x="a_b{c}"})', [("a_bucket", "x")]),
    ],
)  # fmt: skip
def test_a_query_is_read(text: str, asked: list[tuple[str, str]]) -> None:
    """Functions, groupings and strings are no metrics."""
    assert list(read_asked(text)) == [
        Asked(name, frozenset(labels.split())) for name, labels in asked
    ]


def test_a_label_that_a_metric_lacks_is_missing() -> None:
    """A series that is never chosen does not count; one that the target adds does."""
    size = "kafka_log_log_size"

    assert find_missing([Asked(size, frozenset({"topic", "env"}))]) == []
    assert find_missing([Asked(size, frozenset({"colour"}))]) == [f"{size}{{colour}}"]
    assert find_missing([Asked("kafka_no_such", frozenset())]) == ["kafka_no_such"]


def test_quantiles_and_buckets_are_known() -> None:
    """A summary has a label of its own, a histogram and a counter have suffixes."""
    time = "kafka_network_requestmetrics_totaltimems"

    assert find_missing([Asked(time, frozenset({"quantile", "request"}))]) == []
    assert find_missing([Asked("siltstone_request_seconds_bucket", frozenset({"le"}))]) == []
    assert find_missing([Asked("siltstone_request_seconds", frozenset())]) != []


def test_public_dashboards_find_most() -> None:
    """Nothing is lacking but fetches by topic, and what this broker has no part for."""
    found = {each.dashboard: each for each in judge_public()}
    fetches = {"totalfetchrequests", "failedfetchrequests", "totalfetchrequestspersec"}

    assert len(found["Strimzi: kafka"].there) >= 20
    assert len(found["Confluent: kafka-cluster"].there) >= 50
    assert len(found["Confluent: kafka-topics"].there) >= 9
    for each in found.values():
        lacking = {name.split("_", 3)[3].removesuffix("_total") for name in each.missing}
        assert lacking <= fetches


def test_a_dashboard_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Queries of nested panels are told once each, with what they lack."""
    targets = [{"expr": "sum(kafka_log_log_size)"}, {"expr": "sum(kafka_log_log_colour)"}]
    dashboard = {"panels": [{"panels": [{"targets": targets}]}, {"targets": targets}]}
    path = tmp_path / "dashboard.json"
    path.write_text(json.dumps(dashboard), encoding="utf-8")

    assert main([str(path)]) == 0

    assert len(list(read_queries(dashboard))) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: 1 of 2 queries answered, 1 of 2 metrics there",
        "  yes sum(kafka_log_log_size)",
        "  no  sum(kafka_log_log_colour)",
        "        lacks kafka_log_log_colour",
    ]
