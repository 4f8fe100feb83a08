"""Settings that promise protection that this broker does not give. They stop the start.

A user that sets one of these relies on it, and would otherwise learn from an intruder that it has
no effect. A value that promises nothing is accepted: Kafka's default, an empty value, or one of
`_HARMLESS`.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from siltstone.config.errors import ConfigError
from siltstone.config.known import Known, known_broker, known_settings, without_listener
from siltstone.config.security import parse_name
from siltstone.config.table import BROKER
from siltstone.config.values import parse


class Promise(NamedTuple):
    """A pattern of names, their promise, why it is not kept, and what holds instead or to do."""

    names: str
    words: str
    remedy: str


# fmt: off
_PROMISES = (
    Promise(r"config\.providers",
            "values that are read from elsewhere, but each is taken as it is written",
            "give the values themselves, in a file that only the broker's user may read"),
    Promise(r"early\.start\.listeners",
            "listeners that open before the authorizer knows its ACLs, but no listener does",
            "all ACLs are known before clients are served"),
    Promise(r"ssl\..*|security\.providers",
            "something of TLS in Java that is not done here",
            "OpenSSL does it; docs/security-tls.md says by what settings"),
    Promise(r"sasl\..*|connections\.max\.reauth\.ms|connection\.failed\.authentication\.delay\.ms",
            "a login that is not asked for",
            "use a mechanism that sasl.enabled.mechanisms takes here, with what belongs to it as "
            "listener.name.NAME.MECHANISM.sasl.jaas.config"),
    Promise(r"principal\.builder\.class",
            "principals by rules of its own, but no class of Java is asked",
            "make names of certificates shorter by ssl.principal.mapping.rules"),
    Promise(r"delegation\.token\..*",
            "delegation tokens, but this broker has no such tokens",
            "give each client a user of its own, or tokens of OAUTHBEARER"),
    Promise(r"password\.encoder\..*",
            "encrypted passwords, but settings are stored as they are given",
            "let only the broker's user read the log directories"),
    Promise(r"max\.connections\.per\.ip(\.overrides)?",
            "a limit to the connections of one listener that is not kept",
            "set it without the name of a listener: it counts those of all listeners then"),
    Promise(r"quota\.(producer|consumer)\.default",
            "a quota of every client by a setting, which Kafka lacks, too",
            "set producer_byte_rate or consumer_byte_rate by kafka-configs --entity-type clients "
            "--entity-default"),
    Promise(r"client\.quota\.callback\.class",
            "quotas by rules of its own, but no class of Java is asked",
            "set quotas by kafka-configs"),
    Promise(r"(alter\.config|create\.topic)\.policy\.class\.name",
            "rules for topics and settings, but no class of Java is asked",
            "keep clients that would break them from the broker"),
)
# fmt: on
_KERBEROS = "sasl.kerberos."
_HARMLESS = {
    "quota.consumer.default": {str((1 << 63) - 1)},
    "quota.producer.default": {str((1 << 63) - 1)},
}

_BETWEEN_BROKERS = frozenset({
    "sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
})  # fmt: skip
"""How brokers log in to each other: with one broker they let no client in."""


def find_promise(name: str) -> Promise | None:
    """Return the promise of a setting, for one listener or for all; None if it promises nothing.

    A setting that this broker obeys counts as no promise.
    """
    if name in BROKER or parse_name(name) is not None:
        return None
    setting = without_listener(name)
    if setting in _BETWEEN_BROKERS:
        return None
    return next((each for each in _PROMISES if re.fullmatch(each.names, setting)), None)


def broken_promise(known: Known, text: str, *, is_dynamic: bool = False) -> str | None:
    """Return why a value cannot be accepted; None if it promises nothing.

    A running broker has started without Kerberos: as in Kafka, tools may change settings of
    Kerberos then, and the changes let no client in.
    """
    promise = find_promise(known.name)
    if promise is None or _is_harmless(known, text.strip()):
        return None
    if is_dynamic and without_listener(known.name).startswith(_KERBEROS):
        return None
    return f"{known.name} promises {promise.words}; remove it, and {promise.remedy}"


def check_stored(values: Mapping[str, str]) -> None:
    """Refuse stored values that promise protection, though an earlier version accepted them.

    Raises:
        ConfigError: there are such values; the error has a sentence for each.
    """
    strangers = {name: known_broker(name) for name in values if name not in BROKER}
    broken = (
        broken_promise(known, values[name], is_dynamic=True)
        for name, known in strangers.items()
        if known is not None
    )
    faults = [fault for fault in broken if fault is not None]
    if faults:
        raise ConfigError(faults)


def _is_harmless(known: Known, text: str) -> bool:
    setting = without_listener(known.name)
    if not text or text.lower() in _HARMLESS.get(setting, ()):
        return True
    default = known_settings("broker")[setting].default
    if default is None:
        return False
    return bool(parse(known.kind, text.lower()) == parse(known.kind, default.lower()))
