"""The places that values of settings come from, and the order in which they win.

For a topic: its own value, then the broker's through the synonyms of `config.table`. For the
broker: dynamic for this broker, dynamic for all, `--set`, environment, file, default. The three
static sources before the default are merged when they are loaded: Kafka describes them as one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from siltstone.config import checks
from siltstone.config.connection_limits import OF_LISTENER as LIMITS
from siltstone.config.errors import ConfigError, NotAlterableError
from siltstone.config.keys import Setting, make
from siltstone.config.known import Known, known_broker, known_settings
from siltstone.config.naming import unknown_broker_setting, unknown_topic_setting, why_fixed
from siltstone.config.security import ListenerName, check_value, parse_name
from siltstone.config.server import ServerConfig
from siltstone.config.table import BROKER, OBEYED, SERVER, TOPIC, counting_name, topic_value
from siltstone.config.tls import OF_LISTENER as OF_TLS
from siltstone.config.topic import TopicConfig
from siltstone.config.values import read

_NONE: Mapping[str, Any] = MappingProxyType({})
_KEPT = 16


class Source(IntEnum):
    """The source of a value, with its code in the answer to DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Origin(NamedTuple):
    """The sources of the static values, which can be read again."""

    path: Path | None
    environ: Mapping[str, str]
    sets: tuple[str, ...]


class Given(NamedTuple):
    """A value from the file, the environment or the command line, and its place there."""

    value: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """All given values as text, and the effective settings that follow from them.

    A change makes a new object. An object is equal only to itself, so that results can be cached by
    it. The effective settings are computed once, when the object is created.

    Raises:
        ConfigError: a value does not parse or is out of range.
    """

    static: Mapping[str, Given] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    origin: Origin | None = field(default=None, repr=False)
    _values: Mapping[str, str] = field(init=False, repr=False)
    _server: ServerConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        static = {name: given.value for name, given in self.static.items()}
        object.__setattr__(self, "_values", static | dict(self.cluster) | dict(self.broker))
        object.__setattr__(self, "_server", self._make_server())

    def server(self) -> ServerConfig:
        """Return the effective settings of the broker; cheap."""
        return self._server

    def topic(self, overrides: Mapping[str, str] = _NONE) -> TopicConfig:
        """Return the effective settings of a topic with these own values; cheap.

        Names that this broker does not obey are ignored: a stored value must not stop a start.

        Raises:
            ConfigError: a value does not parse or is out of range.
        """
        base = self._server.topic_defaults
        if not overrides:
            return base
        faults: list[str] = []
        values = {}
        for name, text in overrides.items():
            if name in OBEYED and counting_name(name, overrides) == name:
                values[OBEYED[name].attribute] = checked(OBEYED[name], text, "", faults)
        if faults:
            raise ConfigError(faults)
        return replace(base, **values)

    def with_dynamic(
        self, *, cluster: Mapping[str, str] | None = None, broker: Mapping[str, str] | None = None
    ) -> "Layers":
        """Return these layers with other dynamic values, if they differ; None keeps the present.

        Raises:
            ConfigError: a value does not parse or is out of range.
        """
        cluster = self.cluster if cluster is None else dict(cluster)
        broker = self.broker if broker is None else dict(broker)
        if (cluster, broker) == (self.cluster, self.broker):
            return self
        return replace(self, cluster=cluster, broker=broker)

    def value(self, name: str) -> str | None:
        """Return the text in force for a broker setting; None if nothing is given."""
        return self._values.get(name)

    def where(self, name: str) -> str:
        """Return the place of the value in force of a broker setting, in words."""
        if name in self.broker:
            return "dynamic for this broker"
        if name in self.cluster:
            return "dynamic for all brokers"
        return self.static[name].where if name in self.static else "default"

    def check_topic(self, overrides: Mapping[str, str]) -> tuple[str, ...]:
        """Check all values of a topic together and return warnings about them.

        Raises:
            ConfigError: a name is unknown, or values are bad or contradict each other; has every
                fault.
        """
        return _check_topic(self, tuple(overrides.items()))

    def check_dynamic(self, values: Mapping[str, str], *, cluster: bool = False) -> tuple[str, ...]:
        """Check all dynamic values of this broker or of the cluster, and return warnings.

        Raises:
            NotAlterableError: a setting needs a restart, or cannot be set for all brokers; has
                every fault.
            ConfigError: a name is unknown, or values are bad or contradict each other; has every
                fault.
        """
        faults: list[str] = []
        fixed: list[str] = []
        warnings: list[str] = []
        for name, text in values.items():
            setting = BROKER.get(name)
            of_listener = parse_name(name)
            if of_listener is not None:
                unalterable = _why_fixed(of_listener, name, cluster=cluster)
                fixed += unalterable
                # A setting that cannot be altered may be a secret, such as sasl.jaas.config: no
                # fault quotes it.
                faults += () if unalterable else _faults_of_listener(of_listener, name, text)
            elif setting is None:
                known = unknown_broker_setting(name, text, "", faults, warnings)
                fixed += () if known is None else why_fixed(known, cluster=cluster)
            elif setting.dynamic:
                known = known_settings("broker").get(name)  # None for a setting that Kafka lacks
                fixed += () if known is None else _why_not_here(known, cluster=cluster)
                warnings += advice(setting, checked(setting, text, "", faults), text)
            else:
                fixed.append(f"{name} cannot be altered while the broker runs; restart it with it")
        if fixed:
            raise NotAlterableError(fixed + faults)
        if not faults:
            changed = self.with_dynamic(**{"cluster" if cluster else "broker": values})
            faults += checks.contradictions(changed.server().topic_defaults, changed.server())
            faults += checks.resize_faults(self._server, changed.server())
            if checks.ADVERTISED in values:
                faults += [fault for _, fault in checks.advertising_faults(changed.server())]
            faults += checks.tls_faults(changed.server())
            warnings += [
                f"{name} has no effect: no listener of that name encrypts"
                for name in sorted(_find_idle(values, changed.server()))
            ]
        if faults:
            raise ConfigError(faults)
        return tuple(warnings)

    def _make_server(self) -> ServerConfig:
        faults: list[str] = []
        is_given = self._values.__contains__
        topic: dict[str, Any] = {}
        for setting in TOPIC.values():
            name = next(filter(is_given, setting.synonyms), None)
            if name is not None:
                topic[setting.attribute] = topic_value(name, self._read(name, faults))
        server: dict[str, Any] = {}
        for setting in SERVER.values():
            name = next(filter(is_given, (setting.name, *setting.synonyms)), None)
            if name is not None:
                server[setting.name] = self._read(name, faults)
        if faults:
            raise ConfigError(dict.fromkeys(faults))
        of_listeners = {name: text for name, text in self._values.items() if parse_name(name)}
        made = make(
            ServerConfig,
            server,
            topic_defaults=TopicConfig(**topic),
            listener_settings=of_listeners,
        )
        idle = _find_idle({*self.cluster, *self.broker}, made)
        kept = {name: text for name, text in of_listeners.items() if name not in idle}
        return replace(made, listener_settings=kept) if idle else made

    def _read(self, name: str, faults: list[str]) -> Any:
        return checked(BROKER[name], self._values[name], self.where(name), faults)


@lru_cache(maxsize=_KEPT)
def _check_topic(layers: Layers, own: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Check for `Layers.check_topic`; settings that many topics get are checked once."""
    faults: list[str] = []
    warnings: list[str] = []
    for name, text in own:
        if name in OBEYED:
            value = checked(OBEYED[name], text, "", faults)
            warnings += advice(OBEYED[name], value, text)
        else:
            unknown_topic_setting(name, text, faults, warnings)
    if not faults:
        faults += checks.contradictions(layers.topic(dict(own)))
    if faults:
        raise ConfigError(faults)
    return tuple(warnings)


def checked(setting: Setting, text: str, where: str, faults: list[str]) -> Any:
    """Return the value of a text, or the default after adding a fault."""
    try:
        return read(setting, text)
    except ValueError as error:
        place = f"{where}: " if where else ""
        faults.append(f"{place}{setting.name} is {text or 'empty'}; it must be {error}")
        return setting.default


def may_alter(name: ListenerName) -> bool:
    """Tell whether a running broker obeys a change of a setting of one listener."""
    return name.setting in LIMITS or name.setting in OF_TLS


def _why_fixed(parts: ListenerName, name: str, *, cluster: bool) -> list[str]:
    """Return why a setting of a listener cannot be altered, for all brokers or for one broker."""
    known = known_broker(name)
    if known is not None and may_alter(parts):
        return _why_not_here(known, cluster=cluster)
    return [f"{name} cannot be altered while the broker runs; restart it with it"]


def _why_not_here(known: Known, *, cluster: bool) -> list[str]:
    """Return why a setting that is obeyed at once cannot be altered for all brokers or for one."""
    if known.alterable == "-":  # Kafka needs a restart for it
        known = known._replace(alterable="broker")
    return why_fixed(known, cluster=cluster)


def _faults_of_listener(parts: ListenerName, name: str, text: str) -> list[str]:
    try:
        check_value(parts, text)
    except ValueError as error:
        return [f"{name} is {text or 'empty'}; it must be {error}"]
    return []


def advice(setting: Setting, value: Any, text: str) -> list[str]:
    """Return warnings about a value that is accepted."""
    if setting.advice is None or value is None or setting.advice.holds(value):
        return []
    return [f"{setting.name} is {text}; Apache Kafka wants {setting.advice.words}"]


def _find_idle(dynamic: Iterable[str], server: ServerConfig) -> set[str]:
    """Return dynamic settings of TLS whose listener does not exist, or does not encrypt.

    A running Kafka accepts such settings, and so does this broker; at the start they are faults.
    """
    named = {name: parse_name(name) for name in dynamic}
    of_tls = {
        name: parts.listener
        for name, parts in named.items()
        if parts is not None and parts.setting in OF_TLS
    }
    try:
        encrypting = {name.lower() for name in server.tls_listeners()} if of_tls else set()
    except ValueError:
        encrypting = set()  # reported as a fault of listeners
    return {name for name, listener in of_tls.items() if listener not in encrypting}
