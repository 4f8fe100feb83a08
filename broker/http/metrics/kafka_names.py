"""Kafka's own metrics, by the names that public dashboards use.

Dashboards are written for one of two sets of jmx_exporter rules. Strimzi's rules write a meter as
``bytesin_total`` and a percentage as ``idle_percent``. Confluent's rules keep ``bytesinpersec`` and
``idlepercent``, and set no type. Metrics that are in neither set are in other modules. There are no
metrics of a JVM, of ZooKeeper or of tiered storage.

A single broker has no replicas to lose, and one loop has no queues between threads: metrics of
these are always 0, as on an idle single node of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final

from siltstone.broker.http.metrics.metric import (
    PARTITION,
    TOPIC,
    Kind,
    Metric,
    Reader,
    Row,
    Summary,
    each_of,
    one_of,
    per_partition,
    per_topic,
    single,
    sum_of,
)
from siltstone.broker.http.metrics.recent import NO_TIMES
from siltstone.broker.http.metrics.scans import PAUSE, PartitionScan
from siltstone.broker.process import stats as process_stats
from siltstone.protocol.errors import error_name

if TYPE_CHECKING:
    from siltstone.broker.http.metrics.metric_sources import ListenerCounts, MetricSources

_FETCH: Final = 1
_RUNNING: Final = 3
_RECOVERY: Final = 2
_MAX_SOFTWARE: Final = 100
# The APIs that dashboards draw even before their first request.
_ALWAYS_TOLD: Final = frozenset({0, 1, 3})
# Requests of these APIs may wait for records or members; all others are answered at once.
_WAITING: Final = frozenset({"Fetch", "FetchConsumer", "JoinGroup", "SyncGroup"})
_FOLLOWER: Final = "FetchFollower"


def _produces(scan: PartitionScan) -> Iterator[int]:
    for sums, failed in zip(scan.sums, scan.failed_produces, strict=True):
        yield sums.batches_in + failed


def _requests(sources: MetricSources) -> Iterator[Row]:
    for key, stats in sources.requests.by_key.items():
        yield (stats.name,), stats.count
        if key == _FETCH:
            yield ("FetchConsumer",), stats.count
            yield (_FOLLOWER,), 0


def request_errors(sources: MetricSources) -> Iterator[Row]:
    """Yield the counts of error codes in answers, by API and name of the error."""
    for stats in sources.requests.by_key.values():
        for code, count in tuple(stats.errors.items()):
            yield (stats.name, error_name(code).removeprefix("error ")), count


def _timed(read: Callable[[MetricSources, int, str], Summary | None]) -> Reader:
    """Return a reader of the time of each API with requests; consumers' fetches have a row, too.

    ``read`` gets the key of the API and Kafka's name for its requests.
    """

    def rows(sources: MetricSources) -> Iterator[Row]:
        for key, stats in sources.requests.by_key.items():
            if key not in _ALWAYS_TOLD and not stats.count:
                continue
            names = (stats.name, "FetchConsumer") if key == _FETCH else (stats.name,)
            for name in names:
                value = read(sources, key, name)
                if value is not None:
                    yield (name,), value
        yield (_FOLLOWER,), Summary(0, 0.0, NO_TIMES)

    return rows


def _total(sources: MetricSources, key: int, _name: str) -> Summary:
    stats = sources.requests.by_key[key]
    return Summary(stats.count, stats.seconds, sources.recent.request_quantiles(key))


def _local(sources: MetricSources, key: int, name: str) -> Summary | None:
    return None if name in _WAITING else _total(sources, key, name)


def _remote(sources: MetricSources, key: int, name: str) -> Summary:
    if name in _WAITING:
        return _total(sources, key, name)
    return _no_time(sources, key, name)


def _no_time(sources: MetricSources, key: int, _name: str) -> Summary:
    return Summary(sources.requests.by_key[key].count, 0.0, NO_TIMES)


def _loop_lag(sources: MetricSources) -> Iterator[Row | None]:
    quantiles = sources.recent.lag_quantiles()
    lag = sources.loop_lag
    mean = lag.seconds / (lag.count or 1)

    def queued(sources: MetricSources, key: int, _name: str) -> Summary:
        count = sources.requests.by_key[key].count
        return Summary(count, count * mean, quantiles)

    yield from _timed(queued)(sources)


def by_listener(read: Callable[[ListenerCounts], float]) -> Reader:
    """Return a reader of one value for each listener."""
    return each_of(lambda sources: {each.listener: read(each) for each in sources.listeners()})


def _came(sources: MetricSources) -> dict[str, float]:
    return {listener: came for listener, came, _ in sources.recent.connection_rates()}


def _went(sources: MetricSources) -> dict[str, float]:
    return {listener: went for listener, _, went in sources.recent.connection_rates()}


def _software(sources: MetricSources) -> Iterator[Row | None]:
    """Count connections by client software; above a number of names the rest count as others."""
    counts: dict[tuple[str, ...], int] = {}
    for key in sources.software():
        if key is None:
            yield PAUSE
            continue
        known = key if key in counts or len(counts) < _MAX_SOFTWARE else ("other", "other", key[2])
        counts[known] = counts.get(known, 0) + 1
    yield from counts.items()


def _disk(read: Callable[[process_stats.DiskBytes], int]) -> Reader:
    """Return a reader of a count of the kernel; a hardened kernel may not report it."""

    def rows(_: MetricSources) -> Iterator[Row]:
        found = process_stats.disk_bytes()
        if found is not None:
            yield (), read(found)

    return rows


_TOPICS = "kafka_server_brokertopicmetrics"
_REQUESTS = "kafka_network_requestmetrics"
_REPLICAS = "kafka_server_replicamanager"
_CONTROLLER = "kafka_controller"
_SOCKETS = "kafka_server_socketservermetrics"
_PROCESS = "kafka_server_kafkaserver"
_LOOP = "kafka_network_socketserver"
_HANDLERS = "kafka_server_kafkarequesthandlerpool"
_REQUEST = ("request",)
_LISTENER = ("listener",)
_ONE_NODE = "Always 0: one node is its own only replica."
_SCAN = "Log of each partition"
_CONSTANT = "constant"
_IDLE_HELP = "Share of the last minute in which the event loop's thread did not compute, 0 to 1."
_IDLE_SOURCE = "processor time of the thread"


def _idle(kind: Kind, name: str) -> Metric:
    return Metric(
        kind, name, (), _IDLE_HELP, _IDLE_SOURCE, single(lambda sources: sources.recent.idle)
    )


def _always_0(kind: Kind, name: str, words: str = _ONE_NODE) -> Metric:
    return Metric(kind, name, (), words, _CONSTANT, single(lambda _: 0))


# fmt: off
KAFKA_NAMES = (
    Metric("gauge", f"{_PROCESS}_brokerstate", (),
           "3: the broker runs; 2: it opens its logs.",
           "`Readiness`", single(lambda sources: _RECOVERY if sources.starting() else _RUNNING)),
    # Topics
    Metric("untyped", f"{_TOPICS}_bytesinpersec", TOPIC,
           "Bytes of record batches appended since the start.",
           f"`end.bytes_in` of the {_SCAN}", sum_of("bytes_in")),
    Metric("untyped", f"{_TOPICS}_bytesoutpersec", TOPIC,
           "Bytes of record batches handed to fetch responses since the start.",
           f"`bytes_out` of the {_SCAN}", sum_of("bytes_out")),
    Metric("untyped", f"{_TOPICS}_messagesinpersec", TOPIC,
           "Records appended since the start.",
           f"`end.records_in` of the {_SCAN}", sum_of("records_in")),
    Metric("counter", f"{_TOPICS}_totalproducerequests", TOPIC,
           "Batches that producers sent, one for each partition of a request; with refused ones.",
           f"`end.batches_in` of the {_SCAN}", per_topic(_produces)),
    Metric("untyped", f"{_TOPICS}_totalproducerequestspersec", TOPIC,
           "The same since the start.",
           f"`end.batches_in` of the {_SCAN}", per_topic(_produces)),
    Metric("counter", f"{_TOPICS}_failedproducerequests", TOPIC,
           "Batches refused, but for those too large, damaged, or refused by the disk.",
           "`Topic`, in produce", per_topic(lambda scan: scan.failed_produces)),
    _always_0("untyped", f"{_TOPICS}_producemessageconversionspersec",
              "Always 0: old formats are refused, not converted."),
    _always_0("untyped", f"{_TOPICS}_fetchmessageconversionspersec",
              "Always 0: old formats are not converted."),
    # Replicas and the controller
    Metric("gauge", "kafka_cluster_partition_replicascount", PARTITION,
           "Always 1.", _CONSTANT, per_partition(lambda _: repeat(1))),
    _always_0("gauge", "kafka_cluster_partition_atminisr"),
    _always_0("gauge", "kafka_cluster_partition_underminisr"),
    _always_0("untyped", f"{_REPLICAS}_isrshrinkspersec"),
    _always_0("untyped", f"{_REPLICAS}_isrexpandspersec"),
    *(
        _always_0("gauge", f"{_REPLICAS}_straypartitions{name}",
                  "Always 0: no partition moves to another node and leaves a folder here.")
        for name in ("count", "misclassifiedcount", "totalsize")
    ),
    *(
        Metric("gauge", f"kafka_server_replicafetchermanager_{name}", ("clientid",),
               _ONE_NODE, _CONSTANT, each_of(lambda _: {"Replica": 0}))
        for name in ("minfetchrate", "maxlag")
    ),
    _always_0("counter", f"{_CONTROLLER}_controllerstats_uncleanleaderelections"),
    _always_0("untyped", f"{_CONTROLLER}_controllerstats_uncleanleaderelectionspersec"),
    _always_0("gauge", f"{_CONTROLLER}_kafkacontroller_preferredreplicaimbalancecount"),
    # Requests
    Metric("untyped", f"{_REQUESTS}_requestspersec", _REQUEST,
           "Requests answered since the start; as in Kafka, FetchConsumer are in Fetch too.",
           "`RequestStats`, in dispatch", _requests),
    Metric("untyped", f"{_REQUESTS}_errorspersec", ("request", "error"),
           "Error codes in answers since the start.",
           "`RequestStats`, in dispatch", request_errors),
    _always_0("gauge", f"{_REQUESTS}_deprecatedrequestspersec_fiveminuterate",
              "Always 0: no version that is served is deprecated."),
    Metric("summary", f"{_REQUESTS}_totaltimems", _REQUEST,
           "Milliseconds from the whole request to its answer, the wait of a long poll included.",
           "`RequestStats`, in dispatch", _timed(_total), scale=1000.0),
    Metric("summary", f"{_REQUESTS}_requestqueuetimems", _REQUEST,
           "Milliseconds that what was ready waited for the event loop; there is no other queue.",
           "`LoopWatch`, ten times a second, for all requests", _loop_lag, scale=1000.0),
    Metric("summary", f"{_REQUESTS}_localtimems", _REQUEST,
           "The total time of requests that are answered at once; for those that may wait, see "
           "remotetimems.",
           "`RequestStats`, in dispatch", _timed(_local), scale=1000.0),
    Metric("summary", f"{_REQUESTS}_remotetimems", _REQUEST,
           "The total time of requests that may wait for records or members; 0 for all others.",
           "`RequestStats`, in dispatch", _timed(_remote), scale=1000.0),
    Metric("summary", f"{_REQUESTS}_responsequeuetimems", _REQUEST,
           "Always 0: an answer is sent at once, there is no queue.",
           _CONSTANT, _timed(_no_time), scale=1000.0),
    Metric("summary", f"{_REQUESTS}_responsesendtimems", _REQUEST,
           "Always 0: the time of sending is in the total time, not measured by itself.",
           _CONSTANT, _timed(_no_time), scale=1000.0),
    *(
        _always_0("gauge", f"kafka_network_requestchannel_{name}queuesize",
                  "Always 0: requests and answers stand in no queue.")
        for name in ("request", "response")
    ),
    # Threads
    _idle("gauge", f"{_LOOP}_networkprocessoravgidle_percent"),
    _idle("untyped", f"{_LOOP}_networkprocessoravgidlepercent"),
    _idle("gauge", f"{_HANDLERS}_requesthandleravgidle_percent"),
    _idle("gauge", f"{_HANDLERS}_requesthandleravgidlepercent_oneminuterate"),
    # Connections
    Metric("gauge", "kafka_server_socket_server_metrics_connection_count", _LISTENER,
           "Connections that are open.",
           "`Listener.connections`", by_listener(lambda counts: counts.open)),
    Metric("gauge", f"{_SOCKETS}_connection_creation_rate", _LISTENER,
           "Connections accepted in a second, of the last minute.",
           "`Listener.accepted_count`", each_of(_came)),
    Metric("gauge", f"{_SOCKETS}_connection_close_rate", _LISTENER,
           "Connections closed in a second, of the last minute.",
           "`Listener.accepted_count`, `Listener.connections`", each_of(_went)),
    Metric("gauge", f"{_SOCKETS}_connections",
           ("client_software_name", "client_software_version", "listener"),
           f"Connections by what clients say they are; beyond {_MAX_SOFTWARE} kinds they are "
           "`other`.",
           "`Connection.software`", _software),
    Metric("gauge", "kafka_network_acceptor_acceptorblockedpercent", _LISTENER,
           "Always 0: nothing that is accepted waits for a thread.",
           _CONSTANT, by_listener(lambda _: 0)),
    Metric("untyped", "kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec", (),
           "Incremental fetch sessions that had to make room since the start.",
           "`FetchSessions`", single(lambda sources: sources.sessions.evicted_count)),
    # Groups, and the process
    Metric("gauge", "kafka_coordinator_group_groupmetadatamanager_numgroups", (),
           "Groups that have members or a record of their own.",
           "`GroupCoordinator`",
           one_of(lambda sources: sources.groups)(lambda groups: len(groups.groups))),
    Metric("untyped", f"{_PROCESS}_linux_disk_read_bytes", (),
           "Bytes that the process had read from disks, as the kernel counts.",
           "`/proc/self/io`", _disk(lambda disk: disk.read)),
    Metric("untyped", f"{_PROCESS}_linux_disk_write_bytes", (),
           "Bytes that the process has written to disks, as the kernel counts.",
           "`/proc/self/io`", _disk(lambda disk: disk.written)),
)
# fmt: on
