"""The dashboards and alerts that come along, against a real Prometheus and a real broker.

Not tried here: Grafana itself draws nothing, only what it would ask is asked.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import SiltstoneProcess
from tests.support.prometheus import ROOT, Prometheus, promtool, scraping
from tests.support.waiting import wait_until
from tools.dashboards import read_facts, read_queries
from tools.grafana import DASHBOARDS, render

FOLDER = ROOT / "docker" / "grafana" / "dashboards"
LABELS = {
    "env": "local",
    "namespace": "siltstone",
    "strimzi_io_cluster": "siltstone",
    "strimzi_io_name": "siltstone-kafka",
    "kubernetes_pod_name": "siltstone-kafka-0",
    "container": "kafka",
}
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$topic": ".*"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltstoneProcess]:
    """A broker with a cleaner that has passed, a group that lags, and a refused batch."""
    made = SiltstoneProcess(
        tmp_path_factory.mktemp("broker"), {"log.cleaner.backoff.ms": "100"}
    ).start()
    try:
        connected = use(made.bootstrap)
        yield made
        connected.flush(30)
    finally:
        made.close()


@pytest.fixture(scope="module")
def prometheus(
    broker: SiltstoneProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped the broker more than once since its cleaner's first pass."""
    folder = tmp_path_factory.mktemp("prometheus") / "server"
    with scraping(folder, broker.http, LABELS) as server:
        passes = 'siltstone_cleaner_passes_total{outcome="cleaned"}'
        often = f"({passes} > 0) and count_over_time({passes}[1m]) > 5"
        wait_until(lambda: server.query(often), "some scrapes after a pass")
        yield server


def use(bootstrap: str) -> Producer:
    """Do what leaves series: produce, be refused, consume, commit, have a topic compacted.

    Returns:
        A client that stays connected.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
    made = admin.create_topics(
        [NewTopic("orders", 2, 1), NewTopic("prices", 1, 1, config=compacted)]
    )
    for each in made.values():
        each.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    refused = []
    for number in range(20):
        producer.produce("orders", b"value", partition=number % 2)
        producer.produce("prices", b"value", key=b"key")
        assert producer.flush(30) == 0
    producer.produce("prices", b"no key", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(30) == 0
    assert refused[0] is not None
    assert refused[0].code() == KafkaError.INVALID_RECORD
    own = {"group.id": "billing", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **own})
    for partition in range(2):
        consumer.commit(
            offsets=[TopicPartition("orders", partition, 7 + partition)], asynchronous=False
        )
    consumer.assign([TopicPartition("orders", 0, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"value"
    with pytest.raises(KafkaException):
        admin.delete_topics(["nowhere"])["nowhere"].result(30)
    consumer.close()
    return producer


def filled_in(query: str) -> str:
    """Return a query as Grafana asks it."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_file_is_not_stale(dashboard: Any) -> None:
    """`make docs` was run after the last change of a panel."""
    path = FOLDER / f"{dashboard.uid}.json"

    assert path.read_text(encoding="utf-8") == render(dashboard), "run make docs"


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_panels_lie_side_by_side(dashboard: Any) -> None:
    """No two panels cover each other, none leaves the grid, and ids are unique."""
    panels = json.loads(render(dashboard))["panels"]
    taken: set[tuple[int, int]] = set()

    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_alerts_fire_for_what_they_are_about() -> None:
    """Its unit tests of docker/alerts.yml."""
    done = promtool("test", "rules", "tests/docker/alerts.yml")

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test() -> None:
    """An alert that nobody has seen fire is a hope."""
    rules = (ROOT / "docker" / "alerts.yml").read_text(encoding="utf-8")
    tests = (ROOT / "tests" / "docker" / "alerts.yml").read_text(encoding="utf-8")
    names = [line.split()[-1] for line in rules.splitlines() if "- alert:" in line]

    assert len(names) > 10
    for name in names:
        assert f"alertname: {name}\n        exp_alerts:" in tests, name


def test_prometheus_takes_the_configuration() -> None:
    """The file of docker/compose.yaml, with its rules, is one."""
    done = promtool("check", "config", "docker/prometheus.yml")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.client
@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_every_query_returns_series(dashboard: Any, prometheus: Prometheus) -> None:
    """A panel without a line is a panel that nobody has looked at."""
    queries = [each.text for each in read_queries(json.loads(render(dashboard)))]
    empty = [query for query in queries if not prometheus.query(filled_in(query))]

    assert len(queries) > 20
    assert empty == []


@pytest.mark.slow
@pytest.mark.client
def test_public_dashboards_find_series(prometheus: Prometheus) -> None:
    """Metrics of the page come at a real scrape, with their labels."""
    missing = {}
    for dashboard, asked in read_facts().items():
        found = [
            each.name
            for each in asked
            if prometheus.query(
                each.name + "{" + ",".join(f'{label}!=""' for label in each.labels) + "}"
            )
        ]
        missing[dashboard] = len(found)

    assert missing["Strimzi: kafka"] >= 20
    assert missing["Confluent: kafka-cluster"] >= 50
    assert missing["Confluent: kafka-topics"] >= 9


@pytest.mark.slow
@pytest.mark.client
def test_what_happened_is_what_is_told(prometheus: Prometheus) -> None:
    """Records, refused batches, lag, and the software of connected clients."""
    topics = "kafka_server_brokertopicmetrics"

    assert prometheus.value(f'{topics}_messagesin_total{{topic="orders"}}') == 20
    assert prometheus.value(f'{topics}_totalproducerequests_total{{topic="prices"}}') == 21
    assert prometheus.value(f'{topics}_failedproducerequests_total{{topic="prices"}}') == 1
    assert prometheus.value('sum(kafka_consumergroup_lag{consumergroup="billing"})') == 13 - 8
    assert prometheus.value("siltstone_log_dir_free_bytes") > 0
    [connected, *_] = prometheus.query("kafka_server_socketservermetrics_connections > 0")
    assert connected["metric"]["client_software_name"] == "confluent-kafka-python"


@pytest.mark.slow
@pytest.mark.client
def test_no_alert_is_about_to_fire(prometheus: Prometheus) -> None:
    """A broker that is well and a disk that has room are left alone; every rule is evaluated."""
    health = wait_until(
        prometheus.rules, "all rules to be evaluated", lambda all_: set(all_.values()) == {"ok"}
    )

    assert len(health) > 10
    assert prometheus.alerts() <= {"SiltstoneDiskAlmostFull", "SiltstoneDiskFullInADay"}
