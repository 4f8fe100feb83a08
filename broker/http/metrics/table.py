"""Every metric, once: its name, its text, its labels and where the value comes from.

Names are those that jmx_exporter's usual rules form from Kafka's beans, in lower case, so that a
Kafka dashboard finds them. Names of metrics that Kafka does not have begin with ``siltstone_``. At
a scrape a row reads plain counters, which the parts of the broker own. A reader with much to read
yields ``PAUSE`` in between, so that others can have the loop. The values of partitions are read
before, in one walk (`broker.http.metrics.scans`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from siltstone.broker.http.metrics import coordinator_metrics, disks
from siltstone.broker.http.metrics.cleaner_metrics import CLEANER_METRICS
from siltstone.broker.http.metrics.kafka_names import KAFKA_NAMES, by_listener, request_errors
from siltstone.broker.http.metrics.metric import (
    PARTITION,
    TOPIC,
    Metric,
    Reader,
    Row,
    Summary,
    each_of,
    per_partition,
    rows_of,
    single,
    sum_of,
)
from siltstone.broker.http.metrics.quotas import QUOTA_METRICS
from siltstone.broker.process import stats as process_stats
from siltstone.storage.appending import refused_batches

if TYPE_CHECKING:
    from siltstone.broker.net.tls.endpoints import Endpoints


def _invalid_records(kind: str) -> Reader:
    return single(lambda sources: sources.requests.invalid_records[kind])


_of_requests = rows_of(lambda sources: sources.requests.by_key.values())
_of_certificates = rows_of(lambda sources: sources.certificates)
_LOG = "Log of each partition"
_REFUSED = "`RequestStats`, in produce"
_BROKER_TOPICS = "kafka_server_brokertopicmetrics"
_REQUESTS = "kafka_network_requestmetrics"


def _expiries(certificates: Endpoints) -> dict[str, float]:
    return {
        listener: each.endpoint.certificate.not_after.timestamp()
        for listener, each in certificates.handshakes.items()
    }


def _handshakes(certificates: Endpoints) -> Iterator[Row]:
    for listener, each in certificates.handshakes.items():
        yield (listener, "succeeded"), each.succeeded
        yield (listener, "failed"), each.failed


# fmt: off
METRICS = (
    Metric("counter", f"{_BROKER_TOPICS}_bytesin", TOPIC,
           "Bytes of record batches appended.",
           f"`end.bytes_in` of the {_LOG}", sum_of("bytes_in")),
    Metric("counter", f"{_BROKER_TOPICS}_bytesout", TOPIC,
           "Bytes of record batches handed to fetch responses.",
           f"`bytes_out` of the {_LOG}", sum_of("bytes_out")),
    Metric("counter", f"{_BROKER_TOPICS}_messagesin", TOPIC,
           "Records appended.",
           f"`end.records_in` of the {_LOG}", sum_of("records_in")),
    Metric("counter", "siltstone_batches_in", TOPIC,
           "Record batches appended; records per batch tells how well producers batch.",
           f"`end.batches_in` of the {_LOG}", sum_of("batches_in")),
    Metric("counter", f"{_BROKER_TOPICS}_nokeycompactedtopicrecords", (),
           "Records refused because they have no key and their topic is compacted.",
           _REFUSED, _invalid_records(refused_batches.NO_KEY_COMPACTED_TOPIC)),
    Metric("counter", f"{_BROKER_TOPICS}_invalidmagicnumberrecords", (),
           "Batches refused because they are of an old format.",
           _REFUSED, _invalid_records(refused_batches.INVALID_MAGIC_NUMBER)),
    Metric("counter", f"{_BROKER_TOPICS}_invalidmessagecrcrecords", (),
           "Batches refused because their checksum is wrong.",
           _REFUSED, _invalid_records(refused_batches.INVALID_MESSAGE_CRC)),
    Metric("counter", f"{_BROKER_TOPICS}_invalidoffsetorsequencerecords", (),
           "Batches refused for their offsets, or because a producer's sequence is missing.",
           _REFUSED, _invalid_records(refused_batches.INVALID_OFFSET_OR_SEQUENCE)),
    Metric("gauge", "kafka_log_log_size", PARTITION,
           "Bytes of the partition's segment files.",
           f"`size` of the {_LOG}", per_partition(lambda scan: scan.sizes)),
    Metric("gauge", "kafka_log_log_logstartoffset", PARTITION,
           "First offset that can be read.",
           f"`log_start_offset` of the {_LOG}", per_partition(lambda scan: scan.starts)),
    Metric("gauge", "kafka_log_log_logendoffset", PARTITION,
           "Offset that the next record gets.",
           f"`log_end_offset` of the {_LOG}", per_partition(lambda scan: scan.ends)),
    Metric("gauge", "kafka_log_log_numlogsegments", PARTITION,
           "Segments of the partition.",
           f"`segments` of the {_LOG}", per_partition(lambda scan: scan.segments)),
    Metric("gauge", "kafka_server_replicamanager_partitioncount", (),
           "Partitions that are served.",
           "`TopicRegistry.logs`", single(lambda sources: len(sources.scan.partitions))),
    Metric("gauge", "kafka_server_replicamanager_leadercount", (),
           "Partitions that this broker leads: all of them.",
           "`TopicRegistry.logs`", single(lambda sources: len(sources.scan.partitions))),
    Metric("gauge", "kafka_server_replicamanager_underreplicatedpartitions", (),
           "Always 0: one node is its own only replica.",
           "constant", single(lambda _: 0)),
    Metric("gauge", "kafka_controller_kafkacontroller_offlinepartitionscount", (),
           "Partitions that take no writes until a restart: their log directory failed.",
           "`LogDirectory.failure`",
           single(lambda sources: sources.scan.offline_count)),
    Metric("gauge", "kafka_controller_kafkacontroller_activecontrollercount", (),
           "Always 1: this broker is its own controller.",
           "constant", single(lambda _: 1)),
    Metric("gauge", "kafka_controller_kafkacontroller_globaltopiccount", (),
           "Topics.",
           "`TopicRegistry.topics`", single(lambda sources: len(sources.topics.topics))),
    Metric("gauge", "kafka_controller_kafkacontroller_globalpartitioncount", (),
           "Partitions of all topics.",
           "`TopicRegistry.logs`", single(lambda sources: len(sources.scan.partitions))),
    Metric("counter", f"{_REQUESTS}_requests", ("request",),
           "Requests answered, the probe's own included.",
           "`RequestStats`, in dispatch",
           _of_requests(each_of(lambda every: {stats.name: stats.count for stats in every}))),
    Metric("counter", f"{_REQUESTS}_errors", ("request", "error"),
           "Error codes in answers.",
           "`RequestStats`, in dispatch", request_errors),
    Metric("counter", "siltstone_requests_refused", (),
           "Frames that were no request served here; each closed its connection.",
           "`RequestStats`, in dispatch", single(lambda sources: sources.requests.refused)),
    Metric("histogram", "siltstone_request_seconds", ("request",),
           "Seconds from the whole request to its answer, the wait of a long poll included.",
           "`RequestStats`, in dispatch",
           _of_requests(each_of(lambda every: {each.name: each for each in every if each.count}))),
    Metric("gauge", "kafka_server_socketservermetrics_connection_count", ("listener",),
           "Connections that are open.",
           "`Listener.connections`", by_listener(lambda counts: counts.open)),
    Metric("counter", "kafka_server_socketservermetrics_connection_creation", ("listener",),
           "Connections accepted.",
           "`Listener.accepted_count`", by_listener(lambda counts: counts.accepted)),
    Metric("gauge", "kafka_server_fetchsessioncache_numincrementalfetchsessions", (),
           "Incremental fetch sessions.",
           "`FetchSessions`", single(lambda sources: len(sources.sessions.sessions))),
    Metric("gauge", "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", (),
           "Partitions in incremental fetch sessions.",
           "`FetchSessions`", single(lambda sources: sources.sessions.partition_count)),
    Metric("counter", "kafka_server_fetchsessioncache_incrementalfetchsessionevictions", (),
           "Incremental fetch sessions that had to make room for others.",
           "`FetchSessions`", single(lambda sources: sources.sessions.evicted_count)),
    Metric("gauge", "siltstone_waiting_fetches", (),
           "Fetches that wait for data.",
           "`Waiting`", single(lambda sources: sources.waiting_fetches())),
    Metric("summary", "kafka_log_logflushstats_logflushrateandtimems", (),
           "Milliseconds of flushes of logs to the disk.",
           "`LogManager`",
           single(lambda sources: Summary(sources.flushes.flushes, sources.flushes.seconds)),
           scale=1000.0),
    Metric("gauge", "kafka_log_logmanager_offlinelogdirectorycount", (),
           "Log directories that failed and take no writes until a restart.",
           "`LogManager`",
           single(lambda sources: sum(sources.offline_directories().values()))),
    Metric("gauge", "kafka_log_logmanager_logdirectoryoffline", ("logdirectory",),
           "1 if the log directory failed and takes no writes until a restart.",
           "`LogManager`",
           each_of(lambda sources: {
               name: int(is_offline) for name, is_offline in sources.offline_directories().items()
           })),
    Metric("histogram", "siltstone_event_loop_lag_seconds", (),
           "How late a timer of the event loop fired; timers have a grain of 1 ms.",
           "`LoopWatch`, ten times a second", single(lambda sources: sources.loop_lag)),
    Metric("gauge", "siltstone_dead_threads", (),
           "Background threads that died; the log has the reason. Restart the broker.",
           "threads of the broker", single(lambda sources: len(sources.dead_threads()))),
    Metric("gauge", "siltstone_ready", (),
           "1 if the last round trip through the probe log succeeded.",
           "`Readiness`", single(lambda sources: int(sources.ready()))),
    Metric("gauge", "siltstone_build_info", ("version",),
           "Always 1; the label says which version runs.",
           "package metadata", each_of(lambda sources: {sources.version: 1})),
    Metric("counter", "process_cpu_seconds", (),
           "Processor seconds of all threads, user and system.",
           "`getrusage`", single(lambda _: process_stats.cpu_seconds())),
    Metric("gauge", "process_resident_memory_bytes", (),
           "Resident memory; mapped files are in it.",
           "`/proc/self/statm`", single(lambda _: process_stats.resident_bytes())),
    Metric("gauge", "process_virtual_memory_bytes", (),
           "Address space.",
           "`/proc/self/statm`", single(lambda _: process_stats.virtual_bytes())),
    Metric("gauge", "process_open_fds", (),
           "Open file descriptors.",
           "`/proc/self/fd`", single(lambda _: process_stats.open_descriptors())),
    Metric("gauge", "process_max_fds", (),
           "The most file descriptors that may be open.",
           "`RLIMIT_NOFILE`", single(lambda _: process_stats.max_descriptors())),
    Metric("gauge", "process_start_time_seconds", (),
           "When the broker started, in seconds since the epoch.",
           "the clock at start", single(lambda sources: sources.started)),
    *CLEANER_METRICS,
    *disks.PIN_METRICS,
    *disks.SCRUB_METRICS,
    Metric("gauge", "siltstone_certificate_expiry_timestamp_seconds", ("listener",),
           "When the certificate that clients of a listener are shown expires, in Unix time.",
           "`Endpoints`", _of_certificates(each_of(_expiries))),
    Metric("counter", "siltstone_tls_handshakes", ("listener", "result"),
           "Handshakes of TLS since the start, by how they ended.",
           "`Handshakes` of each listener", _of_certificates(_handshakes)),
    *QUOTA_METRICS,
    *disks.MOVE_METRICS,
    *disks.DISK_METRICS,
    *coordinator_metrics.GROUP_METRICS,
    *coordinator_metrics.LAG_METRICS,
    *coordinator_metrics.QUEUE_METRICS,
    *coordinator_metrics.TRANSACTION_METRICS,
    *KAFKA_NAMES,
    Metric("gauge", "siltstone_telemetry_clients", (),
           "Clients that pushed metrics of themselves lately; they stand at the end of the page.",
           "`Telemetry`", single(lambda sources: sources.clients.clients)),
    Metric("gauge", "siltstone_client_series_omitted", (),
           "Series of clients that are not told: more than metrics.max.client.series.",
           "`Telemetry`", single(lambda sources: sources.clients.omitted)),
)
# fmt: on
