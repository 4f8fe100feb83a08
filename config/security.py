"""The settings of logins, and their result for one listener.

``listener.name.NAME.X`` gives X for one listener, ``listener.name.NAME.MECHANISM.X`` for one of its
mechanisms; the most specific one counts. (Kafka: SaslConfigs, BrokerSecurityConfigs, ListenerName.)
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from siltstone.config.connection_limits import OF_LISTENER as LIMITS
from siltstone.config.jaas import MODULES, check_module, parse_jaas, users_of
from siltstone.config.keys import PART, Check, Kind, at_least, key, long_key
from siltstone.config.oauth import (
    HANDLER,
    HANDLER_CHECK,
    OAUTHBEARER,
    OAuthConfig,
    OAuthSettings,
    check_options,
    settings_of_tokens,
    token_faults,
    unasked_tokens,
)
from siltstone.config.oauth import OF_LISTENER as OF_TOKENS
from siltstone.config.tls import HTTP, OF_LISTENER, TlsConfig, is_harmless, unasked
from siltstone.config.values import parse

MECHANISMS = tuple(MODULES)
JAAS = "sasl.jaas.config"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_PREFIX = "listener.name."
_KNOWN_MECHANISMS = Check(
    lambda names: set(names) <= set(MECHANISMS),
    f"a list of {', '.join(MECHANISMS)}; GSSAPI (Kerberos) is not served",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Logins of clients, their encryption, and the rights of clients; a part of `config.server`."""

    tls: TlsConfig = field(default_factory=TlsConfig, metadata=PART)
    oauth: OAuthConfig = field(default_factory=OAuthConfig, metadata=PART)

    # fmt: off
    sasl_enabled_mechanisms: tuple[str, ...] = key((),
        "The SASL mechanisms by which clients log in to listeners with SASL: PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 and OAUTHBEARER. Kafka's default is GSSAPI, which is not served.",
        check=_KNOWN_MECHANISMS)
    sasl_server_max_receive_size: int = key(524_288,
        "The largest request of a client that has not logged in yet; a larger one closes its "
        "connection.",
        check=at_least(1))
    connections_max_reauth_ms: int = long_key(0,
        "How long a login counts: a client that does not log in again within that time is closed "
        "at its next request (KIP-368). 0: as long as the connection.",
        check=at_least(0))
    authorizer_class_name: str = key(
        "",
        "The class that decides what clients may do: empty, and they may do everything, or "
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer, and ACLs decide.",
        check=Check(
            lambda name: name in {"", STANDARD_AUTHORIZER},
            f"empty or {STANDARD_AUTHORIZER}; no other class is known here",
        ),
    )
    super_users: str = key(
        "",
        "Principals that may do everything, whatever the ACLs say, such as User:admin; separated "
        "by semicolons.",
        check=Check(
            lambda text: all(
                each.strip().find(":") > 0 for each in text.split(";") if each.strip()
            ),
            "principals such as User:admin, separated by semicolons",
        ),
    )
    allow_everyone_if_no_acl_found: bool = key(False,
        "Whether every client may do everything with a resource without ACLs. Kafka's default.")
    audit_log_file: str = key("",
        "The file to which the audit log goes, a JSON object a line: logins, refusals, and changes "
        "of ACLs, users, settings, topics and groups. Made with mode 0600, and opened again when "
        "it was moved away. Empty: the lines go to the broker's own log.",
        ours=True)
    connection_failed_authentication_delay_ms: int = key(100,
        "How long a client whose login failed waits for the answer, and for the end of its "
        "connection.",
        check=at_least(0))
    # fmt: on


class SaslSettings(NamedTuple):
    """The login of a listener with SASL: its mechanisms in order, and how long each login is valid.

    ``plain_users`` has the passwords from PlainLoginModule's ``user_NAME`` options; ``oauth`` has
    the check of tokens, if the listener accepts tokens.
    """

    mechanisms: tuple[str, ...]
    max_reauth_ms: Mapping[str, int]
    plain_users: Mapping[str, str]
    max_receive_bytes: int
    oauth: OAuthSettings | None = None

    def __repr__(self) -> str:
        """Leave out the passwords."""
        return f"SaslSettings(mechanisms={self.mechanisms!r})"


class ListenerName(NamedTuple):
    """The parts of a name like ``listener.name.lan.plain.sasl.jaas.config``."""

    listener: str
    mechanism: str | None
    setting: str


_OF_LISTENER: dict[str, tuple[Kind, Check | None]] = {
    **LIMITS,
    **OF_LISTENER,
    **OF_TOKENS,
    "sasl.enabled.mechanisms": (Kind.LIST, _KNOWN_MECHANISMS),
    "sasl.server.max.receive.size": (Kind.INT, at_least(1)),
    "connections.max.reauth.ms": (Kind.LONG, at_least(0)),
}
_OF_MECHANISM = {
    mechanism: {JAAS, "connections.max.reauth.ms", "sasl.server.max.receive.size"}
    for mechanism in MECHANISMS
}
_OF_MECHANISM[OAUTHBEARER] |= {HANDLER, *OF_TOKENS}


def parse_name(name: str) -> ListenerName | None:
    """Return the parts of a listener's setting that this broker obeys; None for another name."""
    listener, _, rest = name.removeprefix(_PREFIX).partition(".")
    if not name.startswith(_PREFIX) or not listener:
        return None
    if rest in _OF_LISTENER:
        return ListenerName(listener, None, rest)
    mechanism, _, rest = rest.partition(".")
    if mechanism.islower() and rest in _OF_MECHANISM.get(mechanism.upper(), ()):
        return ListenerName(listener, mechanism.upper(), rest)
    return None


def check_value(name: ListenerName, text: str) -> None:
    """Refuse a value of a setting of one listener.

    Raises:
        ValueError: the value is refused; the message completes "must be" and quotes no secret.
    """
    if name.setting == JAAS:
        module = parse_jaas(text)
        check_module(str(name.mechanism), module)
        if name.mechanism == OAUTHBEARER:
            check_options(module)
        return
    kind, check = (
        (Kind.CLASS, HANDLER_CHECK) if name.setting == HANDLER else _OF_LISTENER[name.setting]
    )
    value = parse(kind, text)
    if check is not None and not check.holds(value):
        raise ValueError(check.words)


def settings_of_listener(
    config: SecurityConfig, given: Mapping[str, str], listener: str
) -> SaslSettings:
    """Return the login of a listener; ``given`` has the settings of single listeners as text."""
    prefix = f"{_PREFIX}{listener.lower()}."

    def find(setting: str, mechanism: str | None = None) -> str | None:
        near = None if mechanism is None else given.get(f"{prefix}{mechanism.lower()}.{setting}")
        return given.get(prefix + setting) if near is None else near

    text = find("sasl.enabled.mechanisms")
    mechanisms = config.sasl_enabled_mechanisms if text is None else parse(Kind.LIST, text)
    lives = {}
    for mechanism in mechanisms:
        life = find("connections.max.reauth.ms", mechanism)
        lives[mechanism] = config.connections_max_reauth_ms if life is None else int(life)
    jaas = given.get(f"{prefix}plain.{JAAS}")
    size = find("sasl.server.max.receive.size")
    oauth = None
    if OAUTHBEARER in mechanisms:
        own = find(JAAS, OAUTHBEARER)
        module = None if own is None else parse_jaas(own)
        oauth = settings_of_tokens(config.oauth, lambda name: find(name, OAUTHBEARER), module)
    return SaslSettings(
        mechanisms,
        lives,
        {} if jaas is None else users_of(parse_jaas(jaas)),
        config.sasl_server_max_receive_size if size is None else int(size),
        oauth,
    )


_ASK = "give it SASL_SSL or SASL_PLAINTEXT in listener.security.protocol.map, or remove the setting"
_ENCRYPT = "give it SSL or SASL_SSL in listener.security.protocol.map, or remove the setting"


def _unasked(config: SecurityConfig, asking: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield settings that promise logins, if no listener asks for logins."""
    if asking:
        return
    given = {
        "sasl.enabled.mechanisms": bool(config.sasl_enabled_mechanisms),
        "connections.max.reauth.ms": bool(config.connections_max_reauth_ms),
    }
    for name, is_given in given.items():
        if is_given:
            yield name, f"{name} promises logins, but no listener asks for SASL; {_ASK}"


def authorizer_faults(config: SecurityConfig) -> Iterator[tuple[str, str]]:
    """Yield settings that promise a check of rights, if there is no authorizer."""
    if config.authorizer_class_name:
        return
    if config.super_users:
        fault = "super.users promises access for some only, but authorizer.class.name is not set; "
        yield "super.users", f"{fault}set it to {STANDARD_AUTHORIZER}, or remove the setting"


def listener_faults(
    config: SecurityConfig,
    given: Mapping[str, str],
    protocols: Mapping[str, str],
    controllers: Collection[str],
    on_loopback: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Yield the faults that keep listeners from asking for logins, with the settings to look at.

    Args:
        config: the settings of all listeners.
        given: the settings of single listeners.
        protocols: the protocol of each listener that is served, and of the HTTP port.
        controllers: the names of listeners of a controller, which are not opened: their settings
            let no client in.
        on_loopback: the names of the listeners that only this machine can reach.
    """
    known = {name.lower() for name in protocols}
    sasl = [name for name, protocol in protocols.items() if protocol.startswith("SASL_")]
    asking = {name.lower() for name in sasl if name != HTTP}
    encrypting = {name.lower() for name, each in protocols.items() if each.endswith("SSL")}
    listening = {name.lower() for name in protocols if name != HTTP}
    unopened = {name.lower() for name in controllers}
    serving = {**dict.fromkeys(OF_LISTENER, encrypting), **dict.fromkeys(LIMITS, listening)}
    yield from _unasked(config, asking)
    yield from unasked(config.tls, encrypting)
    for name, text in given.items():
        parts = parse_name(name)
        if parts is None or parts.listener in {*unopened, *serving.get(parts.setting, asking)}:
            continue
        is_tls = parts.setting in OF_LISTENER
        if is_tls and is_harmless(parts.setting, parse(OF_LISTENER[parts.setting][0], text)):
            continue
        if parts.listener in known and parts.setting not in LIMITS:
            fault = f"{name} is for the listener {parts.listener}, which does not " + (
                f"encrypt; {_ENCRYPT}" if is_tls else f"ask for SASL; {_ASK}"
            )
            yield name, fault
        else:
            fault = f"{name} is for the listener {parts.listener}, which is not in listeners; "
            yield name, f"{fault}write the name of one that is, in lower case"
    takes_tokens = False
    for listener in sasl:
        if listener == HTTP:  # users log in with their passwords there
            continue
        settings = settings_of_listener(config, given, listener)
        if not settings.mechanisms:
            fault = f"the listener {listener} asks for SASL, but sasl.enabled.mechanisms is empty; "
            yield "sasl.enabled.mechanisms", f"{fault}name some of {', '.join(MECHANISMS)}"
        if settings.oauth is not None:
            takes_tokens = True
            is_loopback = listener in on_loopback
            yield from token_faults(settings.oauth, config.oauth, listener, is_loopback=is_loopback)
    if not takes_tokens:
        yield from unasked_tokens(config.oauth)
