"""Rules between settings: one value limits another (Kafka's KafkaConfig and LogConfig)."""

from os.path import normpath

from siltstone.config.consumer_groups import GROUP
from siltstone.config.listeners import check_bindable, is_loopback
from siltstone.config.security import authorizer_faults, listener_faults
from siltstone.config.server import ServerConfig
from siltstone.config.tls import HTTP, faults_of
from siltstone.config.topic import TopicConfig

ADVERTISED = "advertised.listeners"

_LEAST_MAP_BYTES = 1 << 20


def contradictions(topic: TopicConfig, server: ServerConfig | None = None) -> list[str]:
    """Return the contradictions among a topic's settings, and with those of the broker."""
    faults = []
    if topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        faults.append(
            f"min.compaction.lag.ms is {topic.min_compaction_lag_ms} and max.compaction.lag.ms is "
            f"{topic.max_compaction_lag_ms}; the first must not be larger"
        )
    if server is not None:
        faults += _cleaner_faults(server)
        faults += [fault for _, fault in _group_faults(server)]
        faults += _connection_faults(server)
    return faults


def _cleaner_faults(server: ServerConfig) -> list[str]:
    threads = server.log_cleaner_threads
    memory = server.log_cleaner_dedupe_buffer_size
    if not server.log_cleaner_enable or not threads or memory // threads > _LEAST_MAP_BYTES:
        return []
    fault = (
        f"log.cleaner.dedupe.buffer.size is {memory} for log.cleaner.threads {threads}; each "
        f"thread needs more than {_LEAST_MAP_BYTES} bytes: raise the one or lower the other"
    )
    return [fault]


def _connection_faults(server: ServerConfig) -> list[str]:
    if server.max_connections_per_ip or server.max_connections_per_ip_overrides.strip():
        return []
    fault = (
        "max.connections.per.ip is 0 and max.connections.per.ip.overrides is empty, so that no "
        "client could connect; name addresses that may"
    )
    return [fault]


def start_faults(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the faults that keep a broker from starting, each with the setting to look at."""
    faults = [("listeners", fault) for fault in _binding_faults(server)]
    if not faults:
        faults += advertising_faults(server)
    try:
        _ = server.http_address
    except ValueError as error:
        faults.append(("http.listener", f"http.listener {error}"))
    faults += _group_faults(server)
    faults += _security_faults(server)
    faults += authorizer_faults(server.security)
    if len({normpath(each) for each in server.log_dirs}) != len(server.log_dirs):
        faults.append(("log.dirs", "log.dirs names a folder twice; each data folder needs its own"))
    return faults


def _group_faults(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the faults in the settings of groups; Kafka refuses to start with them."""
    faults = []
    for setting in GROUP.values():
        bounds = server.group_bounds(setting.attribute)
        value: int = getattr(server, f"group_{setting.attribute}", 0)
        if bounds is not None and not bounds[0] <= value <= bounds[1]:
            name = setting.synonyms[0]
            kind, rest = name.removeprefix("group.").split(".", 1)
            least = f"group.{kind}.min.{rest} allows at least {bounds[0]} and "
            if rest.startswith("num."):
                least, rest = "", rest.removeprefix("num.")
            fault = f"{name} is {value}; {least}group.{kind}.max.{rest} allows at most {bounds[1]}"
            faults.append((name, fault))
    for kind in ("consumer", "share", "streams"):
        session = getattr(server, f"group_{kind}_session_timeout_ms")
        interval = getattr(server, f"group_{kind}_heartbeat_interval_ms")
        if interval >= session:
            name = f"group.{kind}.heartbeat.interval.ms"
            fault = f"{name} is {interval} and group.{kind}.session.timeout.ms is {session}; "
            faults.append((name, f"{fault}the first must be smaller"))
    if server.group_share_max_share_sessions < server.group_share_max_size:
        name = "group.share.max.share.sessions"
        fault = f"{name} is {server.group_share_max_share_sessions} and group.share.max.size is "
        faults.append((name, f"{fault}{server.group_share_max_size}; the first must not be less"))
    return faults


def _security_faults(server: ServerConfig) -> list[tuple[str, str]]:
    try:
        bound = server.bound_listeners
    except ValueError:
        return []  # reported as a fault of listeners
    protocols = {each.name: each.protocol for each in bound}
    protocols[HTTP] = server.http_security_protocol
    on_loopback = {each.name for each in bound if is_loopback(each.host)}
    given = server.listener_settings
    controllers = server.controllers_listeners
    faults = list(listener_faults(server.security, given, protocols, controllers, on_loopback))
    for listener, settings in server.tls_listeners().items():
        faults += faults_of(listener, settings)
    return faults


def tls_faults(server: ServerConfig) -> list[str]:
    """Return the faults that would keep a listener of a running broker from encrypting."""
    try:
        listeners = server.tls_listeners()
    except ValueError:
        return []  # reported as a fault of listeners
    return [fault for each in listeners.items() for _, fault in faults_of(*each)]


def _binding_faults(server: ServerConfig) -> list[str]:
    try:
        bound = server.bound_listeners
        check_bindable(bound)
    except ValueError as error:
        return [f"listeners {error}"]
    return [] if bound else ["listeners has only listeners of a controller; add one for clients"]


def advertising_faults(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the faults of the addresses for clients, each with the setting to look at."""
    name = ADVERTISED if server.advertised_listeners else "listeners"
    try:
        _ = server.advertised
    except ValueError as error:
        return [(name, f"{name} {error}")]
    return []


def resize_faults(old: ServerConfig, new: ServerConfig) -> list[str]:
    """Return why the running cleaner cannot go from the old to the new number of threads."""
    before, after = old.log_cleaner_threads, new.log_cleaner_threads
    if before == after or (after >= 1 and before / 2 <= after <= before * 2):
        return []
    fault = (
        f"log.cleaner.threads would go from {before} to {after}; while the broker runs it can at "
        "most be halved or doubled, and must be at least 1"
    )
    return [fault]
