"""Every broker setting that the code obeys, without those that give topic defaults.

Settings that give topic defaults are declared once, beside their topic setting (`config.topic`);
their effective values are in `ServerConfig.topic_defaults`. Kafka's classes: ServerConfigs,
ServerLogConfigs, SocketServerConfigs, CleanerConfig, GroupCoordinatorConfig,
TransactionStateManagerConfig, TransactionLogConfig.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from siltstone.config import machine
from siltstone.config.connection_limits import are_overrides
from siltstone.config.consumer_groups import (
    ASSIGNORS,
    KNOWN_ASSIGNORS,
    KNOWN_SHARE_ASSIGNORS,
    KNOWN_STREAMS_ASSIGNORS,
    PROTOCOLS,
    RACK_TAGS,
    SHARE_ASSIGNORS,
    STREAMS_ASSIGNORS,
    MigrationPolicy,
)
from siltstone.config.keys import (
    NOT_EMPTY,
    PART,
    Check,
    Kind,
    at_least,
    between,
    between_or,
    key,
    limit_key,
    long_key,
    long_limit_key,
    one_of,
    one_of_any_case,
    some_of,
)
from siltstone.config.listeners import (
    AUTO,
    Listener,
    advertise,
    is_loopback,
    parse_host_port,
    parse_listeners,
    protocol_map,
)
from siltstone.config.listeners import PROTOCOLS as SECURITY_PROTOCOLS
from siltstone.config.security import SaslSettings, SecurityConfig, settings_of_listener
from siltstone.config.tls import HTTP, TlsConfig
from siltstone.config.tls import settings_of_listener as tls_settings
from siltstone.config.topic import DAY_MS, FOREVER, TopicConfig

_UUID = re.compile("[A-Za-z0-9_-]{22}(==)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The settings of the broker; without arguments, it has the defaults."""

    security: SecurityConfig = field(default_factory=SecurityConfig, metadata=PART)

    # fmt: off
    node_id: int = key(1,
        "The id of this broker in every answer. Part of meta.properties: it does not change later.",
        check=at_least(0), server="broker.id")
    cluster_id: str | None = key(
        None,
        "The id of the cluster, as kafka-storage random-uuid prints one. A new data folder gets "
        "it, and a random one where it is not set; a folder with another stops the start.",
        kind=Kind.STRING,
        check=Check(
            lambda value: value is None or _UUID.fullmatch(value) is not None,
            "22 characters of base64",
        ),
        ours=True,
    )
    broker_rack: str | None = key(
        None, "The rack that Metadata answers for this broker.", kind=Kind.STRING
    )
    listeners: tuple[str, ...] = key(("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen, as NAME://host:port. An empty host is every interface, port 0 any free "
        "port. Kafka's default is PLAINTEXT://:9092; ours stays on this machine until told.",
        check=NOT_EMPTY)
    advertised_listeners: tuple[str, ...] | None = key(None,
        "What clients are told to connect to, by listener name. A listener that is not given here "
        "is advertised as it is bound; an empty host becomes the machine's name. The host auto "
        "tells each client the address of this machine that its connection has reached, which fits "
        "several networks and port 0, but no mapped ports. It can be altered for this broker while "
        "it runs: clients learn of it when they ask next.",
        kind=Kind.LIST, dynamic=True)
    listener_security_protocol_map: str = key(
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "The security protocol of each listener name, as NAME:PROTOCOL. SSL and SASL_SSL encrypt, "
        "SASL_PLAINTEXT and SASL_SSL ask for a login.",
    )
    controller_listener_names: tuple[str, ...] = key((),
        "Listeners that a Kafka controller would open. Siltstone has none and does not open them.")
    http_listener: str = key("127.0.0.1:9464",
        "Where /metrics, /healthz, /readyz and the control channel are served, as host:port.",
        check=NOT_EMPTY, ours=True)
    http_allowed_hosts: tuple[str, ...] = key((),
        "Names by which HTTP clients may ask for this broker, besides its addresses, localhost, "
        "the machine's own name and the hosts in listeners, advertised.listeners and "
        "http.listener. Another name is refused, so that no web page reads ours by DNS rebinding; "
        "a client that sends the control token is not checked. * allows any.",
        ours=True)
    http_anonymous_reads: bool = key(False,
        "Whether every client that reaches http.listener may read it where it is not on loopback "
        "and http.security.protocol asks for no login. Otherwise all but /healthz and /readyz "
        "wants the control token there.",
        ours=True)
    http_remote_records: bool = key(False,
        "Whether /api/records shows records where http.listener is not on loopback, to readers "
        "that may READ the topic. The control token opens them anyway.",
        ours=True)
    metrics_max_lag_series: int = key(5000,
        "How many committed offsets /metrics tells with their lag, one for each partition of each "
        "group; siltstone_consumergroup_series_omitted counts the others. 0: none.",
        check=at_least(0), ours=True)
    metrics_max_client_series: int = key(5000,
        "How many series /metrics has at most of what clients push of themselves (KIP-714); "
        "siltstone_client_series_omitted counts the others. 0: none.",
        check=at_least(0), ours=True)
    telemetry_max_bytes: int = key(1 << 20,
        "How many bytes of metrics a client may push at once, compressed as they are.",
        check=at_least(1))
    http_security_protocol: str = key("PLAINTEXT",
        "How http.listener is protected, by Kafka's names. SSL and SASL_SSL encrypt with what "
        "ssl.keystore.location has, or listener.name.http.ssl.keystore.location; SASL_PLAINTEXT "
        "and SASL_SSL ask for a login, unless http.listener is on loopback: a user and its "
        "password, or the control token.",
        check=one_of(*SECURITY_PROTOCOLS), ours=True)
    graceful_shutdown_timeout_ms: int = long_key(25_000,
        "How long a stop may take: requests in flight, flushing, checkpoints. After it the broker "
        "ends without the clean-shutdown mark, and the next start recovers.",
        check=at_least(0), ours=True)
    pins_max_count: int = key(1000,
        "How many pins may exist at once: moments at which a job reads the segment files. "
        "One more is refused. A DataFrame keeps its pin for some 20 seconds after its last task, "
        "so that a program may plan dozens in a second.",
        check=at_least(0), ours=True)
    pins_max_bytes: int = long_key(10 << 30,
        "How many bytes of log may stay on the disk for the sake of pins alone, when retention and "
        "the cleaner have let go of them. Above it no pin is given, and the oldest are ended.",
        check=at_least(0), ours=True)
    pins_max_lease_ms: int = long_key(600_000,
        "The longest lease of a pin: it ends unless it is renewed within that time.",
        check=at_least(1000), ours=True)
    log_dirs: tuple[str, ...] = key(("siltstone-data",),
        "The data folders. A new partition goes to the one that has the fewest.",
        check=NOT_EMPTY, server="log.dir")
    log_dirs_reserve_bytes: int = long_limit_key(0,
        "How many bytes stay free on the disk of each data folder: with less, produce requests to "
        "it are refused with KAFKA_STORAGE_ERROR until there is room again, while deletions, "
        "retention, the cleaner, committed offsets and ends of transactions go on. With less than "
        "twice as many the log and /readyz warn. 0: produces go on until the disk is full.")
    log_scrub_bytes_per_second: int = long_key(0,
        "How many bytes of closed segments are read per second in the background, round after "
        "round, so that damage shows before a consumer meets it: in a line of the log, on /readyz, "
        "in metrics and in siltstone explain. A round begins an hour after the one before, or when "
        "that is over. 0: nothing is read.",
        check=at_least(0), dynamic=True, ours=True)
    config_reload_on_change: bool = key(
        False,  # the default
        "Reload the file of the settings by itself as soon as it has changed, as SIGHUP does. "
        "Without it a changed file leaves a line in the log that says how many settings a reload "
        "would change, or what is wrong with it.",
        dynamic=True,
        ours=True,
    )
    num_partitions: int = key(1, "How many partitions a topic gets by default.", check=at_least(1))
    default_replication_factor: int = key(1,
        "The replication factor of topics by default; one node can only hold 1.")
    auto_create_topics_enable: bool = key(True,
        "Whether asking for the metadata of a topic that does not exist creates it.")
    delete_topic_enable: bool = key(True, "Whether topics can be deleted.")
    socket_send_buffer_bytes: int = key(102_400,
        "How many bytes the kernel may hold of what a client has not taken (SO_SNDBUF; it grants "
        "twice as many). -1: the system's own choice.",
        check=between_or(1, (1 << 31) - 1, -1))
    socket_receive_buffer_bytes: int = key(-1,
        "How many bytes of requests the kernel may hold for us (SO_RCVBUF, likewise). -1: the "
        "system's own choice, which takes large produces faster than Kafka's default of 102400.",
        check=between_or(1, (1 << 31) - 1, -1))
    socket_request_max_bytes: int = key(
        104_857_600, "The largest request; a larger one closes its connection.", check=at_least(1)
    )
    queued_max_request_bytes: int = long_key(-1,
        "How many bytes of requests that are not whole or not served may be in memory over all "
        "connections. Over it large requests wait, and connections that send too slowly end. "
        "-1: 512 MiB.")
    queued_max_response_bytes: int = long_limit_key(512 * 1024 * 1024,
        "How many bytes of answers that clients have not read may be in memory over all "
        "connections. Over it those are closed that read most slowly.")
    connections_max_idle_ms: int = long_key(600_000,
        "Close a connection that was silent this long and is owed no answer.")
    max_connections: int = key((1 << 31) - 1,
        "How many connections may be open at once, of all listeners; one more is closed. "
        "listener.name.NAME.max.connections is of one listener; there one more waits.",
        check=at_least(1), dynamic=True)
    max_connections_per_ip: int = key((1 << 31) - 1,
        "How many connections an address may have open at once; one more is closed. With 0 those "
        "of max.connections.per.ip.overrides alone may connect.",
        check=at_least(0), dynamic=True)
    max_connections_per_ip_overrides: str = key("",
        "Addresses with another limit than max.connections.per.ip, as ADDRESS:COUNT, with commas "
        "between them. Names are not resolved.",
        check=Check(are_overrides, "a list of ADDRESS:COUNT with addresses of IP"), dynamic=True)
    max_connection_creation_rate: int = key((1 << 31) - 1,
        "How many connections a second are accepted; more wait for their turn. Of one listener: "
        "listener.name.NAME.max.connection.creation.rate.",
        check=at_least(1), dynamic=True)
    connections_max_login_ms: int = long_key(30_000,
        "How long a client may take to log in where a listener asks for SASL; then its connection "
        "is closed. -1: as long as connections.max.idle.ms.",
        check=at_least(-1), ours=True)
    topics_max_count: int = limit_key(100_000,
        "How many topics there may be; one more is refused. Those that exist stay.")
    partitions_max_count: int = limit_key(200_000,
        "How many partitions all topics together may have; more are refused.")
    groups_max_count: int = limit_key(100_000,
        "How many groups there may be, those with members or a record of their own and those with "
        "committed offsets each for themselves; a new one more is refused.")
    group_members_max_bytes: int = long_limit_key(512 * 1024 * 1024,
        "How many bytes all groups and their members may have in memory, with assignments and "
        "names; a group or a member has one or two thousand, and 350 for each of its partitions. "
        "Members that are new or say more are told beyond that to ask again, and so are those of a "
        "user whose members have half of it already.")
    group_offsets_max_bytes: int = long_limit_key(512 * 1024 * 1024,
        "How many bytes the committed offsets of all groups may have in memory, with those of open "
        "transactions. An offset takes 120, its topic 220, its group 350; metadata and the group's "
        "name come to that. New ones are refused beyond that; those that exist may change.")
    share_states_max_bytes: int = long_limit_key(256 * 1024 * 1024,
        "How many bytes the states of all queues may have in memory; the queue of a share group in "
        "a partition takes 700, and 20 for each range of records that differ. What is new or more "
        "is refused beyond that.")
    client_metrics_max_count: int = limit_key(100,
        "How many subscriptions to metrics of clients there may be (KIP-714); one more is refused. "
        "Each is held against each client that asks.")
    configs_max_bytes: int = long_limit_key(64 * 1024 * 1024,
        "How many bytes the settings may have that topics, groups and subscriptions have of their "
        "own, names and values, all together. What would exceed that is refused; a change that "
        "takes bytes away never is.")
    transactional_ids_max_count: int = limit_key(100_000,
        "How many transactional ids are remembered; a new one more is refused until others have "
        "expired (transactional.id.expiration.ms).")
    transactional_ids_max_bytes: int = long_limit_key(256 * 1024 * 1024,
        "How many bytes the transactional ids may have in memory, with the partitions of their "
        "open transactions: half a kilobyte each, and 100 to 200 bytes a partition. A new one and "
        "partitions that are added are refused beyond that.")
    producer_ids_max_count: int = key(100_000,
        "How many idempotent producers a partition remembers; the batches of a new one more are "
        "refused until others have expired (producer.id.expiration.ms).",
        check=at_least(1), ours=True)
    producer_states_max_count: int = key(1_000_000,
        "How many producers all partitions remember together, each of half a kilobyte; one counts "
        "once for each partition that it writes to. The batches of a new one more are refused.",
        check=at_least(1), ours=True)
    fetch_session_partitions_max_count: int = limit_key(500_000,
        "How many partitions all fetch sessions together may have, of half a kilobyte each; a "
        "fetch that would exceed it is served without a session.")
    quota_window_num: int = key(11,
        "Over how many windows the quotas of clients are held. One that was silent may ask for "
        "half as much at once as they hold but for the one that has begun.",
        check=at_least(1))
    quota_window_size_seconds: int = key(
        1, "How long a window of the quotas of clients is.", check=at_least(1)
    )
    controller_quota_window_num: int = key(11,
        "Over how many windows controller_mutation_rate is held. A client that was silent may make "
        "and delete as many partitions at once as all of them hold.",
        check=at_least(1))
    controller_quota_window_size_seconds: int = key(
        1, "How long a window of controller_mutation_rate is.", check=at_least(1)
    )
    fetch_max_bytes: int = key(57_671_680,
        "The most that one fetch answers, also if the client asks for more.",
        check=at_least(1024))
    max_incremental_fetch_session_cache_slots: int = key(
        1000, "How many fetch sessions (KIP-227) are remembered.", check=at_least(0)
    )
    max_request_partition_size_limit: int = key(
        2000, "The most partitions in one DescribeTopicPartitions answer.", check=at_least(1)
    )
    num_network_threads: int = key(3,
        "Threads that send large fetched ranges; the event loop sends and receives all the rest.",
        check=at_least(1))
    num_io_threads: int = key(8,
        "Threads that wait for the disk and run codecs; the event loop does everything else.",
        check=at_least(1))
    num_recovery_threads_per_data_dir: int = key(
        2, "Threads per data folder that open and close partitions.", check=at_least(1)
    )
    log_retention_check_interval_ms: int = long_key(
        300_000, "How often retention looks for old segments.", check=at_least(1)
    )
    log_initial_task_delay_ms: int = long_key(30_000,
        "How long after the start retention, flushing and checkpoints run for the first time.",
        check=at_least(0))
    log_flush_scheduler_interval_ms: int = long_key(FOREVER,
        "How often flush.ms is looked at, and its last default.")
    log_flush_offset_checkpoint_interval_ms: int = key(
        60_000, "How often recovery points are written.", check=at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = key(
        60_000, "How often log start offsets are written.", check=at_least(0)
    )
    replica_high_watermark_checkpoint_interval_ms: int = long_key(5000,
        "How often high watermarks are written.")
    producer_id_expiration_ms: int = key(DAY_MS,
        "Forget the sequence numbers of an idempotent producer that wrote nothing for so long.",
        check=at_least(1))
    producer_id_expiration_check_interval_ms: int = key(
        600_000, "How often such producers are looked for.", check=at_least(1)
    )
    num_replica_alter_log_dirs_threads: int | None = key(None,
        "How many partitions are moved between log directories at a time. Unset: as many as there "
        "are log directories.",
        kind=Kind.INT, check=at_least(1))
    replica_alter_log_dirs_io_max_bytes_per_second: int = long_key(FOREVER,
        "How many bytes per second all moves between log directories together copy.",
        check=at_least(0), dynamic=True)
    log_cleaner_enable: bool = key(True,
        "Whether compacted topics are cleaned. false also stops their retention by time and size.")
    log_cleaner_threads: int = key(1, "Cleaner threads.", check=at_least(0), dynamic=True)
    log_cleaner_dedupe_buffer_size: int = long_key(134_217_728,
        "Memory for the cleaner's offset maps, all threads together, in bytes; more than 1 MiB for "
        "each thread.",
        dynamic=True)
    log_cleaner_io_buffer_load_factor: float = key(
        0.9, "How full an offset map may get, as a share of it.", dynamic=True
    )
    log_cleaner_io_buffer_size: int = key(524_288,
        "Memory for the cleaner's reads and writes, all threads together, in bytes.",
        check=at_least(0), dynamic=True)
    log_cleaner_io_max_bytes_per_second: float = key(1.7976931348623157e308,
        "The most that all cleaner threads together read and write per second.",
        dynamic=True)
    log_cleaner_backoff_ms: int = long_key(15_000,
        "How long a cleaner thread sleeps when no log needs it.",
        check=at_least(0), dynamic=True)
    transaction_max_timeout_ms: int = key(900_000,
        "The longest transaction.timeout.ms that a producer may ask for; more is refused.",
        check=at_least(1))
    transactional_id_expiration_ms: int = key(604_800_000,
        "How long a transactional id is remembered after its last transaction. Its producer has to "
        "begin again afterwards.",
        check=at_least(1))
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(10_000,
        "How often transactions are looked for that have lasted longer than their time-out; they "
        "are aborted and their producers fenced.",
        check=at_least(1))
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        3_600_000, "How often expired transactional ids are looked for.", check=at_least(1)
    )
    transaction_partition_verification_enable: bool = key(True,
        "Whether a batch is refused that belongs to no open transaction of its producer; it would "
        "hang, and hold up every reader of committed records.",
        dynamic=True)
    transaction_state_log_num_partitions: int = key(50,
        "How many partitions __transaction_state gets when it is made; not changed later.",
        check=at_least(1))
    transaction_state_log_segment_bytes: int = key(
        104_857_600, "segment.bytes of __transaction_state when it is made.", check=at_least(1)
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = key(("classic", "consumer", "streams"),
        "The protocols that members of groups may speak. Classic always is served; consumer and "
        "streams are where they are named here; share is not served.",
        check=some_of(*PROTOCOLS))
    group_consumer_session_timeout_ms: int = key(45_000,
        "How long a member of a consumer group may be silent before it is fenced.",
        check=at_least(1))
    group_consumer_min_session_timeout_ms: int = key(
        45_000, "The least that consumer.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = key(
        60_000, "The most that consumer.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_consumer_heartbeat_interval_ms: int = key(
        5000, "How often the members of a consumer group are told to heartbeat.", check=at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = key(
        5000, "The least that consumer.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        15_000, "The most that consumer.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_consumer_assignment_interval_ms: int = key(1000,
        "How long a target assignment is kept at least, so that members that come together are "
        "assigned together (KIP-1263). 0: not at all.",
        check=at_least(0), dynamic=True)
    group_consumer_min_assignment_interval_ms: int = key(
        0, "The least that consumer.assignment.interval.ms of a group may be.", check=at_least(0)
    )
    group_consumer_max_assignment_interval_ms: int = key(15_000,
        "The most that consumer.assignment.interval.ms of a group may be.",
        check=at_least(0))
    group_consumer_regex_refresh_interval_ms: int = key(600_000,
        "How often the regular expressions of a consumer group are matched against the topics "
        "again, if no topic has come meanwhile.",
        check=at_least(10_000))
    group_consumer_max_size: int = key(
        (1 << 31) - 1, "The most members of a consumer group.", check=at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = key(ASSIGNORS,
        "The assignors that members may ask for; the first is taken where no member does.",
        check=KNOWN_ASSIGNORS)
    group_consumer_migration_policy: str = key(MigrationPolicy.BIDIRECTIONAL.value,
        "Which way a group with members may go from one protocol to the other while it is in use.",
        check=one_of_any_case(*(policy.value for policy in MigrationPolicy)))
    group_share_session_timeout_ms: int = key(45_000,
        "How long a member of a share group may be silent before it is fenced.",
        check=at_least(1))
    group_share_min_session_timeout_ms: int = key(
        45_000, "The least that share.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_share_max_session_timeout_ms: int = key(
        60_000, "The most that share.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_share_heartbeat_interval_ms: int = key(
        5000, "How often the members of a share group are told to heartbeat.", check=at_least(1)
    )
    group_share_min_heartbeat_interval_ms: int = key(
        5000, "The least that share.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_share_max_heartbeat_interval_ms: int = key(
        15_000, "The most that share.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_share_assignment_interval_ms: int = key(1000,
        "How long a target assignment of a share group is kept at least. 0: not at all.",
        check=at_least(0), dynamic=True)
    group_share_min_assignment_interval_ms: int = key(
        0, "The least that share.assignment.interval.ms of a group may be.", check=at_least(0)
    )
    group_share_max_assignment_interval_ms: int = key(
        15_000, "The most that share.assignment.interval.ms of a group may be.", check=at_least(0)
    )
    group_share_max_size: int = key(
        200, "The most members of a share group.", check=between(1, 1000)
    )
    group_share_assignors: tuple[str, ...] = key(SHARE_ASSIGNORS,
        "The assignor of share groups; Kafka's plug-ins cannot be loaded.",
        check=KNOWN_SHARE_ASSIGNORS)
    group_share_initialize_retry_interval_ms: int = key(30_000,
        "How long the state of a partition that comes to a share group may take to be initialized "
        "before it is tried again.",
        check=at_least(1))
    group_share_max_share_sessions: int = key(
        2000, "How many share sessions there may be.", check=at_least(1)
    )
    group_share_record_lock_duration_ms: int = key(30_000,
        "How long a record belongs to the member that acquired it.",
        check=between(1000, 3_600_000))
    group_share_min_record_lock_duration_ms: int = key(15_000,
        "The least that share.record.lock.duration.ms of a group may be.",
        check=between(1000, 30_000))
    group_share_max_record_lock_duration_ms: int = key(60_000,
        "The most that share.record.lock.duration.ms of a group may be.",
        check=between(30_000, 3_600_000))
    group_share_delivery_count_limit: int = key(
        5, "How often a record is delivered to a share group at most.", check=between(2, 10)
    )
    group_share_min_delivery_count_limit: int = key(
        2, "The least that share.delivery.count.limit of a group may be.", check=between(2, 5)
    )
    group_share_max_delivery_count_limit: int = key(
        10, "The most that share.delivery.count.limit of a group may be.", check=between(5, 25)
    )
    group_share_partition_max_record_locks: int = key(2000,
        "How many records of a partition may be in flight in a share group.",
        check=between(100, 10_000))
    group_share_min_partition_max_record_locks: int = key(100,
        "The least that share.partition.max.record.locks of a group may be.",
        check=between(100, 2000))
    group_share_max_partition_max_record_locks: int = key(4000,
        "The most that share.partition.max.record.locks of a group may be.",
        check=between(2000, 10_000))
    errors_deadletterqueue_auto_create_topics_enable: bool = key(False,
        "Whether the topic that a share group names for its dead letters is created when the first "
        "one is written.",
        dynamic=True)
    errors_deadletterqueue_topic_name_prefix: str = key("dlq.",
        "How the names of topics for dead letters have to begin. Empty: as they like.",
        dynamic=True)
    share_coordinator_state_topic_num_partitions: int = key(50,
        "How many partitions __share_group_state gets when it is made; not changed later.",
        check=at_least(1))
    share_coordinator_state_topic_segment_bytes: int = key(
        104_857_600, "segment.bytes of __share_group_state when it is made.", check=at_least(1)
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = key(500,
        "How many updates of a queue's state are written before the next snapshot of it.",
        check=between(0, 500))
    share_coordinator_state_topic_prune_interval_ms: int = key(300_000,
        "How often records of __share_group_state are deleted that newer snapshots replace.",
        check=at_least(1))
    share_coordinator_cold_partition_snapshot_interval_ms: int = key(300_000,
        "How old the last snapshot of a queue's state may be before one is written in any case, so "
        "that older records can be deleted.",
        check=at_least(1))
    group_streams_session_timeout_ms: int = key(45_000,
        "How long a member of a streams group may be silent before it is fenced.",
        check=at_least(1))
    group_streams_min_session_timeout_ms: int = key(
        45_000, "The least that streams.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_streams_max_session_timeout_ms: int = key(
        60_000, "The most that streams.session.timeout.ms of a group may be.", check=at_least(1)
    )
    group_streams_heartbeat_interval_ms: int = key(
        5000, "How often the members of a streams group are told to heartbeat.", check=at_least(1)
    )
    group_streams_min_heartbeat_interval_ms: int = key(
        5000, "The least that streams.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_streams_max_heartbeat_interval_ms: int = key(
        15_000, "The most that streams.heartbeat.interval.ms of a group may be.", check=at_least(1)
    )
    group_streams_assignment_interval_ms: int = key(1000,
        "How long a target assignment of a streams group is kept at least. 0: not at all.",
        check=at_least(0), dynamic=True)
    group_streams_min_assignment_interval_ms: int = key(
        0, "The least that streams.assignment.interval.ms of a group may be.", check=at_least(0)
    )
    group_streams_max_assignment_interval_ms: int = key(15_000,
        "The most that streams.assignment.interval.ms of a group may be.",
        check=at_least(0))
    group_streams_max_size: int = key(
        (1 << 31) - 1, "The most members of a streams group.", check=at_least(1)
    )
    group_streams_num_standby_replicas: int = key(
        0, "How many standby tasks each stateful task has.", check=at_least(0)
    )
    group_streams_max_standby_replicas: int = key(
        2, "The most that streams.num.standby.replicas of a group may be.", check=at_least(0)
    )
    group_streams_initial_rebalance_delay_ms: int = key(3000,
        "How long the first assignment of a streams group waits for more members. 0: not at all.",
        check=at_least(0))
    group_streams_assignors: tuple[str, ...] = key(STREAMS_ASSIGNORS,
        "The assignor of streams groups; Kafka's plug-ins cannot be loaded.",
        check=KNOWN_STREAMS_ASSIGNORS)
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = key((),
        "The client tags that members of streams groups are asked for; they do not change where "
        "tasks go.",
        check=RACK_TAGS)
    group_min_session_timeout_ms: int = key(6000,
        "The shortest session that a member of a classic group may ask for.")
    group_max_session_timeout_ms: int = key(1_800_000,
        "The longest session that a member of a classic group may ask for.")
    group_initial_rebalance_delay_ms: int = key(3000,
        "How long an empty group waits for more members after the first; each that comes extends "
        "it, up to the rebalance timeout.")
    group_max_size: int = key(
        (1 << 31) - 1, "The most members of a classic group.", check=at_least(1)
    )
    offset_metadata_max_bytes: int = key(4096,
        "The most characters of metadata that come with a committed offset.")
    offsets_retention_minutes: int = key(10_080,
        "How long committed offsets are kept after the group lost its last member, or, in a group "
        "without members of its own, after the commit.",
        check=at_least(1))
    offsets_retention_check_interval_ms: int = long_key(
        600_000, "How often expired offsets are looked for.", check=at_least(1)
    )
    offsets_topic_num_partitions: int = key(50,
        "How many partitions __consumer_offsets gets when it is made; not changed later.",
        check=at_least(1))
    offsets_topic_segment_bytes: int = key(
        104_857_600, "segment.bytes of __consumer_offsets when it is made.", check=at_least(1)
    )
    # fmt: on
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    listener_settings: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Settings of single listeners, as text by name."""

    @property
    def migration_policy(self) -> MigrationPolicy:
        """The direction in which a group with members may change its protocol."""
        return MigrationPolicy(self.group_consumer_migration_policy.lower())

    def group_bounds(self, name: str) -> tuple[int, int] | None:
        """Return the least and greatest value for a group's setting, by its attribute.

        None is for a setting without bounds.
        """
        kind, _, rest = name.partition("_")
        if rest == "num_standby_replicas":
            return 0, self.group_streams_max_standby_replicas
        low: int | None = getattr(self, f"group_{kind}_min_{rest}", None)
        return None if low is None else (low, getattr(self, f"group_{kind}_max_{rest}"))

    @property
    def bound_listeners(self) -> tuple[Listener, ...]:
        """The sockets to open, in the given order, without those of a controller.

        Raises:
            ValueError: an entry is malformed or has no security protocol.
        """
        return self._of_clients(self.listeners)

    def tls_listeners(self) -> dict[str, TlsConfig]:
        """Return the TLS settings of each listener that encrypts, and of the HTTP port."""
        protocols = {each.name: each.protocol for each in self.bound_listeners}
        protocols[HTTP] = self.http_security_protocol
        return {
            name: tls_settings(
                self.security.tls,
                self.listener_settings,
                name,
                has_sasl=protocol.startswith("SASL_"),
            )
            for name, protocol in protocols.items()
            if protocol.endswith("SSL")
        }

    def sasl_of(self, listener: Listener) -> SaslSettings | None:
        """Return how clients of a listener log in; None if they do not log in."""
        if not listener.protocol.startswith("SASL_"):
            return None
        return settings_of_listener(self.security, self.listener_settings, listener.name)

    @property
    def advertised(self) -> tuple[Listener, ...]:
        """The addresses that clients of each bound listener connect to, in the same order.

        A controller's listeners are left out here, too. Port 0 stands for the port that was bound.

        Raises:
            ValueError: an entry is malformed, not bound, or an address that no client can reach.
        """
        return advertise(self.bound_listeners, self._of_clients(self.advertised_listeners or ()))

    @property
    def controllers_listeners(self) -> tuple[str, ...]:
        """The names of those listeners that a controller of Kafka would open."""
        controllers = self._controllers()
        named = (text.partition(":")[0].upper() for text in self.listeners)
        return tuple(name for name in named if name in controllers)

    def _of_clients(self, texts: tuple[str, ...]) -> tuple[Listener, ...]:
        controllers = self._controllers()
        protocols = protocol_map(self.listener_security_protocol_map)
        return tuple(
            listener
            for listener in parse_listeners(texts, protocols, controllers)
            if listener.name not in controllers
        )

    def _controllers(self) -> set[str]:
        return {name.upper() for name in self.controller_listener_names}

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port of the HTTP listener; an empty host means every interface.

        Raises:
            ValueError: the setting is not host:port.
        """
        return parse_host_port(self.http_listener)

    @property
    def http_refuses_strangers(self) -> bool:
        """Whether the HTTP port can be read only with the control token, because it has no users.

        Raises:
            ValueError: one of the listeners is malformed.
        """
        if self.http_anonymous_reads or self.http_security_protocol.startswith("SASL_"):
            return False
        tls = self.tls_listeners().get(HTTP)
        shows_certificates = tls is not None and tls.ssl_client_auth == "required"
        return not shows_certificates and not is_loopback(self.http_address[0])

    @property
    def takes_strangers(self) -> bool:
        """Whether a listener takes clients that prove no name.

        Raises:
            ValueError: one of the listeners is malformed.
        """
        tls = self.tls_listeners()
        return any(
            not each.protocol.startswith("SASL_")
            and (each.name not in tls or tls[each.name].ssl_client_auth != "required")
            for each in self.bound_listeners
        )

    @property
    def http_hosts(self) -> frozenset[str]:
        """The host names that HTTP clients may use for this broker, in lower case.

        Raises:
            ValueError: one of the listeners is malformed.
        """
        listeners = (*self.bound_listeners, *self.advertised)
        hosts = {*self.http_allowed_hosts, self.http_address[0], machine.own_name()}
        hosts.update(listener.host for listener in listeners)
        return frozenset(host.lower().removesuffix(".") for host in hosts if host not in {"", AUTO})
