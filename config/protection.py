"""Settings that promise protection which this broker does not give. They stop the start.

A user who sets one relies on it, and would otherwise learn from an intruder that it has no effect.
A value that promises nothing is accepted: Kafka's default, an empty one, or one of `_HARMLESS`.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from siltstone.config.errors import ConfigError
from siltstone.config.known import Known, known_broker, known_settings, without_listener
from siltstone.config.listeners import BEHIND
from siltstone.config.table import BROKER
from siltstone.config.values import parse


class Promise(NamedTuple):
    """A pattern of names, what they promise, why it is not kept, and what to do instead."""

    names: str
    words: str
    remedy: str


_PROMISES = (
    Promise(
        r"authorizer\.class\.name|super\.users|allow\.everyone\.if\.no\.acl\.found"
        r"|early\.start\.listeners",
        "access for some only, but there are no ACLs and everybody may do everything",
        BEHIND,
    ),
    Promise(r"ssl\..*|security\.providers", "TLS, but connections are not encrypted", BEHIND),
    Promise(
        r"sasl\..*|connections\.max\.reauth\.ms|connection\.failed\.authentication\.delay\.ms",
        "SASL, but nobody has to log in",
        BEHIND,
    ),
    Promise(r"principal\.builder\.class", "principals, but every client is ANONYMOUS", BEHIND),
    Promise(r"delegation\.token\..*", "delegation tokens, but there are none", BEHIND),
    Promise(
        r"security\.inter\.broker\.protocol",
        "protected connections between brokers, but only PLAINTEXT is served",
        BEHIND,
    ),
    Promise(
        r"password\.encoder\..*",
        "encrypted passwords, but settings are stored as they are given",
        "let nobody else read the log directories",
    ),
    Promise(
        r"max\.connections\.per\.ip(\.overrides)?|max\.connection\.creation\.rate",
        "a limit to connections that is not kept",
        "set max.connections, or limit them in a firewall",
    ),
    Promise(
        r"quota\.(producer|consumer)\.default|client\.quota\.callback\.class",
        "quotas, but no client is slowed down",
        "limit the network in front of the broker",
    ),
    Promise(
        r"(alter\.config|create\.topic)\.policy\.class\.name",
        "rules for topics and settings, but no class of Java is asked",
        "let nobody reach the broker who would break them",
    ),
)
_OF_A_LISTENER = Promise(
    r"max\.connections",
    "a limit to the connections of one listener that is not kept",
    "set max.connections, which counts those of all listeners",
)
_HARMLESS = {
    "allow.everyone.if.no.acl.found": {"true"},
    "quota.consumer.default": {str((1 << 63) - 1)},
    "quota.producer.default": {str((1 << 63) - 1)},
}
_PROMISED_BY_DEFAULT = {"allow.everyone.if.no.acl.found", "sasl.enabled.mechanisms"}
"""Of these Kafka's default is a promise, too, if it is written down."""


def find_promise(name: str) -> Promise | None:
    """Return what a setting promises, for one listener or for all; None if nothing.

    The setting is one that Kafka knows and this broker does not obey.
    """
    setting = without_listener(name)
    promises = _PROMISES if setting == name else (*_PROMISES, _OF_A_LISTENER)
    return next((each for each in promises if re.fullmatch(each.names, setting)), None)


def broken_promise(known: Known, text: str) -> str | None:
    """Return why a value cannot be accepted; None if it promises nothing."""
    promise = find_promise(known.name)
    if promise is None or _is_harmless(known, text.strip()):
        return None
    return f"{known.name} promises {promise.words}; remove it, and {promise.remedy}"


def check_stored(values: Mapping[str, str]) -> None:
    """Refuse stored values that an earlier version accepted though they promise protection.

    Raises:
        ConfigError: with a sentence for each.
    """
    strangers = {name: known_broker(name) for name in values if name not in BROKER}
    broken = (
        broken_promise(known, values[name])
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
    if default is None or setting in _PROMISED_BY_DEFAULT:
        return False
    return bool(parse(known.kind, text.lower()) == parse(known.kind, default.lower()))
