"""Settings from the variables of Apache Kafka's image, so that its compose files work unchanged.

The image's rule: after KAFKA_ a _ means a dot, __ means _ and ___ means -. Bitnami's image has
KAFKA_CFG_ instead. Each variable is obeyed or named in a warning; a variable that promises
protection, or a cluster, stops the start.
"""

import re
from collections.abc import Iterator, Mapping

from siltstone.config.known import known_broker
from siltstone.config.naming import did_you_mean
from siltstone.config.sources import Entry
from siltstone.config.table import BROKER

PREFIX = "KAFKA_"
BITNAMI = "KAFKA_CFG_"
CLUSTER_ID = "CLUSTER_ID"

_JVM = re.compile(
    r"KAFKA_(GC_LOG_OPTS|HEAP_OPTS|HOME|JMX_(HOSTNAME|OPTS|PORT)|JVM_PERFORMANCE_OPTS"
    r"|LOG4J_(LOGGERS|OPTS|ROOT_LOGLEVEL)|OPTS|TOOLS_LOG4J_LOGLEVEL|VERSION)"
)
"""Variables that the image keeps for its JVM and leaves out of the settings."""

_OTHER_NAMES = {"KAFKA_KRAFT_CLUSTER_ID": "cluster.id", CLUSTER_ID: "cluster.id"}
_PROTECTION = re.compile(
    r"KAFKA_(SSL_(KEYSTORE|KEY|TRUSTSTORE)_(FILENAME|CREDENTIALS)"
    r"|TLS_.*|CERTIFICATE_PASSWORD"
    r"|(CLIENT|INTER_BROKER|CONTROLLER)_(USERS?|PASSWORDS?|CLIENT_ID|CLIENT_SECRET))"
)
"""Variables of the images' scripts, not of the broker, that ask for TLS or for users."""
_JAAS = re.compile(r"java\.security\.auth|javax\.net\.ssl|java\.security\.krb5")
_IGNORED = (
    (_JVM, "for a JVM and its logs, of no meaning here"),
    # Kubernetes and container links set these for a service called kafka.
    (
        re.compile(r"KAFKA_(SERVICE_.*|PORT|PORT_\d+_.*)"),
        "set for links between containers, not settings",
    ),
    # Scripts of other images read these, and so do programs that are not Kafka's.
    (
        re.compile(r"KAFKA_(CONFLUENT_.+|ENABLE_KRAFT)"),
        "for parts of another image, of no meaning here",
    ),
)
"""Variables that are no settings, and what is said of them."""
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_HOST = re.compile(r"://[^/,]*:(\d+)")


def kafka_entries(
    environ: Mapping[str, str], faults: list[str], warnings: list[str]
) -> list[Entry]:
    """Return the settings among Kafka's variables, in the order of their names."""
    entries: dict[str, Entry] = {}
    ignored: dict[str, list[str]] = {words: [] for _, words in _IGNORED}
    for variable in _listed(environ):
        text = environ[variable]
        why = next((words for pattern, words in _IGNORED if pattern.fullmatch(variable)), None)
        if _asks_for_protection(variable, text):
            faults.append(
                f"{variable} promises protection, but neither a JVM nor a script of an image is "
                "here to give it; remove it, and give the broker's own settings, such as "
                "KAFKA_SSL_KEYSTORE_LOCATION with a PEM file, or KAFKA_SASL_ENABLED_MECHANISMS"
            )
        elif why is not None:
            ignored[why].append(variable)
        else:
            _add(Entry(setting_of(variable), text, variable), entries, faults, warnings)
    warnings += (f"{', '.join(names)}: {words}" for words, names in ignored.items() if names)
    faults += _clusters(entries)
    return list(entries.values())


def setting_of(variable: str) -> str:
    """Return the setting for a variable by the image's rule."""
    if variable in _OTHER_NAMES:
        return _OTHER_NAMES[variable]
    name = variable.removeprefix(BITNAMI if variable.startswith(BITNAMI) else PREFIX).lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_")


def derived_listeners(entries: list[Entry], over: list[Entry]) -> Entry | None:
    """Return the listeners that the image binds, on all hosts, if only advertised ones are given.

    These win over the listeners of a file, as in the image, but not over the settings in ``over``,
    which are given in our names.
    """
    advertised = next((each for each in entries if each.name == "advertised.listeners"), None)
    if advertised is None or any(each.name == "listeners" for each in (*entries, *over)):
        return None
    return Entry("listeners", _HOST.sub(r"://0.0.0.0:\1", advertised.text), advertised.where)


def contradictions(entries: list[Entry], ours: list[Entry]) -> Iterator[str]:
    """Yield a fault for each of Kafka's variables to which one of ours gives another value."""
    given = {each.name: each for each in ours}
    for name, text, where in entries:
        other = given.get(name)
        if other is not None and other.text.strip() != text.strip():
            yield f"{where} and {other.where} give {name} different values; remove one of them"


def _listed(environ: Mapping[str, str]) -> list[str]:
    names = sorted(name for name in environ if name.startswith(PREFIX))
    # Other programs use the short name for ids of their own.
    if CLUSTER_ID in environ and (names or _UUID.fullmatch(environ[CLUSTER_ID])):
        names.append(CLUSTER_ID)
    return names


def _asks_for_protection(variable: str, text: str) -> bool:
    if not text.strip():
        return False
    if _JVM.fullmatch(variable):
        return _JAAS.search(text) is not None
    return _PROTECTION.fullmatch(variable) is not None


def _add(entry: Entry, entries: dict[str, Entry], faults: list[str], warnings: list[str]) -> None:
    name, text, variable = entry
    if name not in BROKER and known_broker(name) is None:
        hint = did_you_mean(name, BROKER)
        warnings.append(f"{variable}: {name} is not a setting and is not obeyed; {hint}")
        return
    other = entries.setdefault(name, entry)
    if other.text.strip() != text.strip():
        faults.append(
            f"{other.where} and {variable} give {name} different values; remove one of them"
        )


def _clusters(entries: Mapping[str, Entry]) -> Iterator[str]:
    """Yield a fault for each variable that would make this broker part of a larger cluster."""
    roles = entries.get("process.roles")
    named = set() if roles is None else {role.strip() for role in roles.text.split(",")} - {""}
    if roles is not None and named and "broker" not in named:
        yield (
            f"{roles.where} is {roles.text}: that is a controller without a broker, and one node "
            "needs none; remove this container, or set it to broker"
        )
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        voters = entries.get(name)
        if voters is None or len([each for each in voters.text.split(",") if each.strip()]) < 2:
            continue
        yield (
            f"{voters.where} names several nodes, but a broker here is a cluster by itself: each "
            "would have data of its own; start one of them, and name only that one"
        )
