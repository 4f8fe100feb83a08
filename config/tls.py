"""The settings of TLS, and their result for one listener.

``listener.name.NAME.ssl.X`` gives ``ssl.X`` for one listener and wins there. The settings are
checked here without reading any file; `broker.net.tls.contexts` reads the files. (Kafka:
SslConfigs, BrokerSecurityConfigs, DefaultSslEngineFactory.)
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from siltstone.config.keys import Check, Kind, key, one_of_any_case, settings_of, some_of
from siltstone.config.values import parse

PREFIX: Final = "listener.name."
HTTP: Final = "http"
"""The name by which ``listener.name.http.ssl.X`` means the HTTP port."""
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
NEWER_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Those of TLS 1.3; the ssl module has no way to leave one out."""
OLDER_SUITES: Final = {
    f"TLS_ECDHE_{key_type}_WITH_{suite}": f"ECDHE-{key_type}-{short}"
    for suite, short in (
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
    for key_type in ("ECDSA", "RSA")
}
"""Those of TLS 1.2 that are served, with OpenSSL's name: each makes a key for one connection."""

KEY_STORE_COMMAND: Final = (
    "keytool -importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12 && "
    "openssl pkcs12 -in store.p12 -out store.pem"
)
TRUST_STORE_COMMAND: Final = KEY_STORE_COMMAND.replace(" -out", " -nokeys -out")


_STORE_TYPE = one_of_any_case("PEM", "PKCS12", "JKS")
_CLIENT_AUTH = one_of_any_case("required", "requested", "none")
_SUITES = Check(
    lambda value: set(value) <= {*NEWER_SUITES, *OLDER_SUITES},
    f"a list of {', '.join((*NEWER_SUITES, *OLDER_SUITES))}; others have no forward secrecy, or "
    "are broken",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The encryption of listeners with SSL and SASL_SSL; a part of `config.security`."""

    # fmt: off
    ssl_keystore_type: str = key("PEM",
        "What ssl.keystore.location holds: PEM, PKCS12 or JKS. The file itself says which of PEM "
        "and PKCS12 it is; one that is JKS is refused with the command that converts it. Kafka's "
        "default is JKS.",
        check=_STORE_TYPE)
    ssl_keystore_location: str | None = key(None,
        "A file with the broker's private key and its certificate, which in PEM comes before those "
        "of the authorities between it and the root.",
        kind=Kind.STRING)
    ssl_keystore_certificate_chain: str | None = key(None,
        "The certificates themselves, as PEM, instead of ssl.keystore.location.",
        kind=Kind.PASSWORD)
    ssl_keystore_key: str | None = key(None,
        "The private key that belongs to ssl.keystore.certificate.chain, as PEM.",
        kind=Kind.PASSWORD)
    ssl_keystore_password: str | None = key(None,
        "The password of a store that is PKCS12; a PEM file has none but that of its key, "
        "ssl.key.password.",
        kind=Kind.PASSWORD)
    ssl_key_password: str | None = key(
        None, "The password of the private key, if it is encrypted in PEM.", kind=Kind.PASSWORD
    )
    ssl_truststore_type: str = key("PEM",
        "What ssl.truststore.location holds: PEM, PKCS12 or JKS, as of ssl.keystore.type.",
        check=_STORE_TYPE)
    ssl_truststore_location: str | None = key(None,
        "A file with the certificates of the authorities that sign those of clients.",
        kind=Kind.STRING)
    ssl_truststore_certificates: str | None = key(None,
        "These certificates themselves, as PEM, instead of ssl.truststore.location.",
        kind=Kind.PASSWORD)
    ssl_truststore_password: str | None = key(None,
        "The password of a store that is PKCS12; a PEM file of certificates has none.",
        kind=Kind.PASSWORD)
    ssl_client_auth: str = key("none",
        "Whether clients show a certificate: required, requested (a client without one is "
        "ANONYMOUS) or none. A listener with SASL_SSL asks for one only by listener.name.NAME."
        "ssl.client.auth, and the login names the client.",
        check=_CLIENT_AUTH)
    ssl_principal_mapping_rules: str = key("DEFAULT",
        "How the name in a client's certificate becomes its principal: rules separated by commas, "
        "each DEFAULT (the whole name) or RULE:expression/replacement/, with L or U behind for "
        "lower or upper case; the first that matches the whole name counts.")
    ssl_enabled_protocols: tuple[str, ...] = key(
        PROTOCOLS, "The versions of TLS that are served.", check=some_of(*PROTOCOLS)
    )
    ssl_cipher_suites: tuple[str, ...] = key((),
        "The cipher suites that are served, by their names in the RFCs; empty: all with forward "
        "secrecy.",
        check=_SUITES)
    # fmt: on


_SETTINGS: Final = settings_of(TlsConfig)
OF_LISTENER: Final = {name: (setting.kind, setting.check) for name, setting in _SETTINGS.items()}
"""The settings that a listener may have for itself."""


def settings_of_listener(
    config: TlsConfig, given: Mapping[str, str], listener: str, *, has_sasl: bool = False
) -> TlsConfig:
    """Return the TLS settings of a listener; ``given`` has those of single listeners as text.

    The value of ``ssl.client.auth`` is in lower case.
    """
    prefix = f"{PREFIX}{listener.lower()}."
    own = {
        name.replace(".", "_"): parse(kind, given[prefix + name])
        for name, (kind, _) in OF_LISTENER.items()
        if prefix + name in given
    }
    if has_sasl:
        own.setdefault("ssl_client_auth", "none")
    found = replace(config, **own)
    return replace(found, ssl_client_auth=found.ssl_client_auth.lower())


def faults_of(listener: str, settings: TlsConfig) -> Iterator[tuple[str, str]]:
    """Yield the faults that keep a listener from encrypting, each with the setting to look at."""
    where = f"the listener {listener}"
    yield from _store_faults(settings, where)
    if settings.ssl_client_auth != "none" and not (
        settings.ssl_truststore_location or settings.ssl_truststore_certificates
    ):
        fault = f"{where} has ssl.client.auth={settings.ssl_client_auth}, but no authority whose "
        remedy = "certificates it takes; set ssl.truststore.location to a PEM file"
        yield "ssl.client.auth", fault + remedy
    if not settings.ssl_enabled_protocols:
        yield "ssl.enabled.protocols", f"{where} has no version of TLS; name some of {PROTOCOLS}"
    yield from _suite_faults(settings, where)
    yield from _rule_faults(settings, where)


def _store_faults(settings: TlsConfig, where: str) -> Iterator[tuple[str, str]]:
    key_store, trust_store = settings.ssl_keystore_location, settings.ssl_truststore_location
    chain, private_key = settings.ssl_keystore_certificate_chain, settings.ssl_keystore_key
    if key_store and (chain or private_key):
        fault = f"{where} has both ssl.keystore.location and ssl.keystore.certificate.chain or "
        yield "ssl.keystore.location", f"{fault}ssl.keystore.key; remove one of the two"
    elif not key_store and not (chain and private_key):
        missing = "ssl.keystore.location"
        if chain or private_key:
            missing = "ssl.keystore.key" if chain else "ssl.keystore.certificate.chain"
        fault = f"{where} encrypts, but {missing} is not set; give the private key and the "
        remedy = "certificates by ssl.keystore.location, or by ssl.keystore.key and "
        yield missing, f"{fault}{remedy}ssl.keystore.certificate.chain"
    if trust_store and settings.ssl_truststore_certificates:
        fault = f"{where} has both ssl.truststore.location and ssl.truststore.certificates; "
        yield "ssl.truststore.location", f"{fault}remove one"
    for name, password, location in (
        ("keystore", settings.ssl_keystore_password, key_store),
        ("truststore", settings.ssl_truststore_password, trust_store),
    ):
        if password and not location:
            fault = f"{where} has ssl.{name}.password, but no ssl.{name}.location; PEM in settings "
            remedy = "has no password but that of the private key, ssl.key.password"
            yield f"ssl.{name}.password", fault + remedy


def _suite_faults(settings: TlsConfig, where: str) -> Iterator[tuple[str, str]]:
    newer = [name for name in settings.ssl_cipher_suites if name in NEWER_SUITES]
    if newer and len(newer) < len(NEWER_SUITES):
        fault = f"{where} has some cipher suites of TLSv1.3, but they are served together; name "
        yield "ssl.cipher.suites", f"{fault}all of {', '.join(NEWER_SUITES)}, or none"
    elif settings.ssl_enabled_protocols and not versions_of(settings):
        fault = f"{where} has no cipher suite for {' or '.join(settings.ssl_enabled_protocols)}; "
        yield "ssl.cipher.suites", f"{fault}add one, or change ssl.enabled.protocols"


def versions_of(settings: TlsConfig) -> tuple[str, ...]:
    """Return the versions of TLS that have a cipher suite; both have if no list is set."""
    suites = settings.ssl_cipher_suites or (*NEWER_SUITES, *OLDER_SUITES)
    with_suites = {"TLSv1.3" if name in NEWER_SUITES else "TLSv1.2" for name in suites}
    return tuple(
        name for name in PROTOCOLS if name in settings.ssl_enabled_protocols and name in with_suites
    )


def _rule_faults(settings: TlsConfig, where: str) -> Iterator[tuple[str, str]]:
    if settings.ssl_principal_mapping_rules.strip() == "DEFAULT":
        return
    from siltstone.config.distinguished_names import parse_rules  # noqa: PLC0415  # re2: few need it

    try:
        parse_rules(settings.ssl_principal_mapping_rules)
    except ValueError as error:
        name = "ssl.principal.mapping.rules"
        yield name, f"{where}: {name} must be {error}"


def is_harmless(name: str, value: object) -> bool:
    """Return whether a value promises nothing: it is the default, empty, or a store's type."""
    default = _SETTINGS[name].default
    same = value.lower() == default.lower() if isinstance(value, str) and default else False
    return same or not value or value == default or name.endswith("store.type")


def unasked(config: TlsConfig, asking: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield settings that promise encryption, if no listener encrypts: a user relies on them."""
    if asking:
        return
    for name, setting in _SETTINGS.items():
        if not is_harmless(name, getattr(config, setting.attribute)):
            fault = f"{name} promises TLS, but no listener has it; give one SSL or SASL_SSL in "
            yield name, f"{fault}listener.security.protocol.map, or remove the setting"
