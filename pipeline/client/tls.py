"""TLS with the settings of Kafka's clients: PEM stores, in files or in the settings themselves.

librdkafka gets the same settings by its own names. (Java: DefaultSslEngineFactory.)
"""

import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from siltstone.config.trust import make_client_context
from siltstone.pipeline.errors import BadOption
from siltstone.storage import files

SETTINGS: Final = frozenset(
    {
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.truststore.type",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.type",
        "ssl.key.password",
    }
)
"""Those that are obeyed."""
_HANDSHAKE_SECONDS: Final = 5.0
_BLOCK: Final = re.compile(r"(-----BEGIN ([A-Z ]+)-----)(.*?)(-----END \2-----)\s*", re.DOTALL)


def make_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context by which a connection encrypts.

    Raises:
        BadOption: a file cannot be read, is not PEM, or lacks a key or certificate.
    """
    authorities = _read(settings, "ssl.truststore.location", "ssl.truststore.certificates")
    try:
        context = make_client_context(text=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise BadOption(
            "kafka.ssl.truststore.location or kafka.ssl.truststore.certificates has no certificate "
            "as PEM"
        ) from error
    if not settings.get("ssl.endpoint.identification.algorithm", "https"):
        context.check_hostname = False
    chain = _read(settings, "ssl.keystore.location", "ssl.keystore.certificate.chain")
    if chain is not None:
        key = chain
        if "ssl.keystore.location" not in settings:
            key = unfold(settings.get("ssl.keystore.key", ""))
        _show(context, chain, key, settings.get("ssl.key.password"))
    return context


def speaks_tls(address: tuple[str, int]) -> bool:
    """Return whether a listener speaks TLS, with any certificate. Blocks."""
    context = make_client_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(address, _HANDSHAKE_SECONDS) as channel:
            context.wrap_socket(channel, server_hostname=address[0]).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # it wants another version, or a certificate
    except (OSError, ValueError):
        return False
    return True


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS, and no others, by the names that librdkafka has for them."""
    found = {
        name: settings[name]
        for name in settings
        if name.startswith("ssl.") and (name not in SETTINGS or name == "ssl.key.password")
    }
    for ours, theirs in (
        ("ssl.truststore.location", ("ssl.ca.location",)),
        ("ssl.keystore.location", ("ssl.certificate.location", "ssl.key.location")),
    ):
        found |= dict.fromkeys(theirs, settings[ours]) if ours in settings else {}
    for ours, name in (
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        found |= {name: unfold(settings[ours])} if ours in settings else {}
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        found["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    return found


def unfold(text: str) -> str:
    """Return PEM with line breaks: in a setting they may be spaces, which Kafka accepts, too."""

    def cut(block: re.Match[str]) -> str:
        begin, _, body, end = block.groups()
        words = body.split() if "\n" not in body.strip() else [body.strip()]
        return "\n".join((begin, *words, end, ""))

    return _BLOCK.sub(cut, text)


def _read(settings: Mapping[str, str], location: str, itself: str) -> str | None:
    path = settings.get(location)
    if not path:
        text = settings.get(itself)
        return unfold(text) if text else None
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadOption(f"kafka.{location}={path} cannot be read: {error.strerror}") from error
    if b"-----BEGIN " not in data:
        raise BadOption(
            f"kafka.{location}={path} is not PEM, and nothing else is read; convert a store of "
            f"Java by keytool -importkeystore -srckeystore {path} -destkeystore store.p12 "
            "-deststoretype PKCS12 && openssl pkcs12 -in store.p12 -out store.pem"
        )
    return data.decode("ascii", "replace").replace("\ufffd", "?")


def _show(context: ssl.SSLContext, chain: str, key: str, password: str | None) -> None:
    """Let a context show a certificate."""
    try:
        with files.in_memory(chain) as chain_file, files.in_memory(key) as key_file:
            context.load_cert_chain(chain_file, key_file, password=lambda: password or "")
    except (ssl.SSLError, ValueError) as error:
        raise BadOption(
            "the key and the certificate of kafka.ssl.keystore.location, or kafka.ssl.keystore.key "
            "and kafka.ssl.keystore.certificate.chain, cannot be used; check that they belong "
            "together, and kafka.ssl.key.password"
        ) from error
