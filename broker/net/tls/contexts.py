"""Builds the ``ssl.SSLContext`` of a listener from its settings, with the dates of certificates.

Every file is read once, so the checked content is the content in use. A fault is one sentence:
which file, what is wrong with it, and what to do.
"""

from __future__ import annotations

import errno
import os
import ssl
import stat
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.broker.net.tls.certificates import (
    Block,
    Certificate,
    read_block,
    read_blocks,
    read_certificate,
)
from siltstone.broker.net.tls.sockets import TlsSocket
from siltstone.config import tls
from siltstone.config.trust import judge_as_java
from siltstone.storage import files
from siltstone.storage.clock import utc_now
from siltstone.storage.files import disk

if TYPE_CHECKING:
    from siltstone.config.distinguished_names import Rule


_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_SECURITY_LEVEL: Final = "@SECLEVEL=2"
"""OpenSSL's security level 2: no RSA key below 2,048 bits, no SHA-1 in a certificate."""
_MAX_FILE_BYTES: Final = 4 << 20
_JKS: Final = bytes.fromhex("feedfeed")
_JCEKS: Final = bytes.fromhex("cececece")
_DER_SEQUENCE: Final = 0x30
_OTHERS_READ: Final = 0o007


class TlsError(Exception):
    """A key or a certificate cannot be used; the text says which, why and what to do."""


class Endpoint(NamedTuple):
    """The context that a listener encrypts with, and facts about it for operators."""

    context: ssl.SSLContext
    certificate: Certificate
    """The certificate that clients get."""
    rules: tuple[Rule, ...] | None
    """Rules that map the name in a client's certificate to a principal; None: the name itself."""
    pem: str
    """The certificate as PEM, for clients that must trust it."""
    notes: tuple[str, ...] = ()
    """Warnings for the log: the settings work, but an operator should know."""

    def name_client(self, der: bytes) -> str:
        """Return the name of the principal for a client's certificate.

        Raises:
            ValueError: The certificate names no subject, no rule applies, or it has expired
            meanwhile.
        """
        certificate = read_certificate(der)
        if not certificate.subject:
            raise ValueError("the subject of its certificate is empty; give it one with a name")
        if certificate.not_after < utc_now():
            raise ValueError(f"the certificate of {certificate.subject} has expired")
        if self.rules is None:
            return certificate.subject
        from siltstone.config.distinguished_names import map_name  # noqa: PLC0415  # re2: few need it

        return map_name(self.rules, certificate.subject)


class _Source(NamedTuple):
    """A PEM text and its origin: a file or a setting."""

    name: str
    text: str


def make_endpoint(settings: tls.TlsConfig) -> Endpoint:
    """Build the endpoint of a listener from its settings. Blocks.

    Raises:
        TlsError: A file, a key or a certificate cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = TlsSocket
    _limit(context, settings)
    keys, chain_from, notes = _read_key_store(settings)
    certificates = _certificates(keys, chain_from)
    certificate = _check_dates(certificates, chain_from)
    _load(context, keys, settings, chain_from)
    context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
    judge_as_java(context)
    _load_authorities(context, settings)
    pem = next(block.text for block in keys if block.label == "CERTIFICATE")
    return Endpoint(context, certificate, _rules(settings), pem, notes)


def files_of(settings: tls.TlsConfig) -> list[str]:
    """Return the paths of the files that a listener reads."""
    return [
        path for path in (settings.ssl_keystore_location, settings.ssl_truststore_location) if path
    ]


def _limit(context: ssl.SSLContext, settings: tls.TlsConfig) -> None:
    """Allow the versions and the cipher suites that the settings name, and no others."""
    versions = tls.versions_of(settings)
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]
    suites = settings.ssl_cipher_suites or tuple(tls.OLDER_SUITES)
    older = [tls.OLDER_SUITES[name] for name in suites if name not in tls.NEWER_SUITES]
    context.set_ciphers(":".join(older or tls.OLDER_SUITES.values()) + f":{_SECURITY_LEVEL}")
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _read_key_store(settings: tls.TlsConfig) -> tuple[list[Block], str, tuple[str, ...]]:
    """Return the blocks of key and certificates, the origin of the certificates, and warnings."""
    if settings.ssl_keystore_location is not None:
        path, password = settings.ssl_keystore_location, settings.ssl_keystore_password
        source = _read(path, "ssl.keystore", password, tls.KEY_STORE_COMMAND)
        return list(read_blocks(source.text)), source.name, _note_rights(path)
    blocks = [
        *read_blocks(settings.ssl_keystore_key or ""),
        *read_blocks(settings.ssl_keystore_certificate_chain or ""),
    ]
    return blocks, "ssl.keystore.certificate.chain", ()


def _note_rights(path: str) -> tuple[str, ...]:
    if disk.stat(path).st_mode & _OTHERS_READ:
        return (f"{path} holds a private key and everybody may read it; run chmod o= on it",)
    return ()


def _read(path: str, store: str, password: str | None, command: str) -> _Source:
    """Read a PEM file, or a PKCS12 store as PEM: the content decides, not the configured type."""
    name = f"{store}.location {path}"
    try:
        data = files.read_checked(path, partial(_check, name), _MAX_FILE_BYTES + 1, follow=True)
    except OSError as error:
        raise TlsError(
            f"{name} cannot be read: {error.strerror}; check the path, and that the broker's user "
            "may read it"
        ) from error
    except ValueError as error:
        raise TlsError(f"{store}.location is no path of a file; name a PEM file") from error
    if len(data) > _MAX_FILE_BYTES:
        raise TlsError(f"{name} has more than {_MAX_FILE_BYTES} bytes; name a PEM file")
    command = command.replace("STORE", path)
    if data.startswith((_JKS, _JCEKS)):
        raise TlsError(f"{name} is a JKS store, which is not read; convert it by {command}")
    if data[:1] == bytes((_DER_SEQUENCE,)):
        return _Source(name, _read_pkcs12(data, name, f"{store}.password", password, command))
    text = data.decode("utf-8", "replace")
    if next(read_blocks(text), None) is None:
        raise TlsError(f"{name} has no block of PEM (-----BEGIN …); name a PEM file")
    if password is not None:
        raise TlsError(
            f"{name} is PEM, which has no password, but {store}.password is set; remove it, and "
            "give that of an encrypted private key as ssl.key.password"
        )
    return _Source(name, text)


def _check(name: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise TlsError(f"{name} is no regular file; name a PEM file")


def _read_pkcs12(data: bytes, name: str, setting: str, password: str | None, command: str) -> str:
    """Return the content of a PKCS12 store as PEM: key, the key's certificates, all others.

    The key in the text is not encrypted. The package `cryptography` comes with the extra ``oauth``.
    It is imported only for a store, since PEM does not need it (Java: PKCS12KeyStore).
    """
    try:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  # few need it
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError as error:
        raise TlsError(
            f"{name} is PKCS12, which is read where cryptography is installed (pip install "
            f"'siltstone[oauth]'); install it, or convert the store by {command}"
        ) from error
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # likewise

    remedy = f"give it as {setting}, or convert the store by {command}"
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        why = "it is no PKCS12, or its password is another"
        raise TlsError(f"{name} cannot be opened: {why}; {remedy}") from error
    except UnsupportedAlgorithm as error:
        why = f"it is encrypted by what is not read: {error}"
        raise TlsError(f"{name} cannot be opened: {why}; {remedy}") from error
    parts = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    written = [each.public_bytes(Encoding.PEM) for each in parts]
    if store.key is not None:
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        written.insert(0, store.key.private_bytes(*form))
    return b"".join(written).decode("ascii")


def _certificates(blocks: Sequence[Block], where: str) -> list[Certificate]:
    """Return the certificates of a key store, the broker's own first."""
    if not any(block.is_key for block in blocks):
        key_at = where.replace("ssl.keystore.certificate.chain", "ssl.keystore.key")
        raise TlsError(f"{key_at} has no private key; put one there (-----BEGIN PRIVATE KEY-----)")
    return _read_certificates(blocks, where)


def _read_certificates(blocks: Sequence[Block], where: str) -> list[Certificate]:
    found = [block for block in blocks if block.label == "CERTIFICATE"]
    if not found:
        raise TlsError(f"{where} has no certificate; put one there (-----BEGIN CERTIFICATE-----)")
    certificates = []
    for number, block in enumerate(found, 1):
        try:
            certificates.append(read_block(block))
        except ValueError as error:
            raise TlsError(
                f"{where}: certificate {number} cannot be read: {error}; write it there again"
            ) from error
    return certificates


def _check_dates(certificates: Sequence[Certificate], where: str) -> Certificate:
    now = utc_now()
    for each in certificates:
        if each.not_after < now:
            raise TlsError(
                f"{where}: the certificate of {each.subject} expired on "
                f"{each.not_after:%Y-%m-%d %H:%M} UTC; put a new one there"
            )
        if each.not_before > now:
            raise TlsError(
                f"{where}: the certificate of {each.subject} counts from "
                f"{each.not_before:%Y-%m-%d %H:%M} UTC on; wait, or set this machine's clock"
            )
    return certificates[0]


def _load(
    context: ssl.SSLContext, blocks: Sequence[Block], settings: tls.TlsConfig, where: str
) -> None:
    key_at = "ssl.keystore.key" if settings.ssl_keystore_location is None else where
    key_block = next(block for block in blocks if block.is_key)
    if key_block.is_encrypted and not settings.ssl_key_password:
        raise TlsError(f"{key_at}: the private key is encrypted; give its ssl.key.password")
    chain = "".join(block.text for block in blocks if block.label == "CERTIFICATE")
    try:
        with files.in_memory(chain) as chain_file, files.in_memory(key_block.text) as key_file:
            context.load_cert_chain(
                chain_file, key_file, password=lambda: settings.ssl_key_password or ""
            )
    except ssl.SSLError as error:
        is_encrypted = key_block.is_encrypted
        raise TlsError(_why_unusable(error, key_at, where, is_encrypted=is_encrypted)) from error
    except ValueError as error:  # a password of more than a kilobyte
        raise TlsError(
            f"{key_at}: ssl.key.password cannot be used: {error}; give another"
        ) from error


def _why_unusable(error: ssl.SSLError, key_at: str, where: str, *, is_encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"{where}: the first certificate does not belong to the private key; put the broker's "
            "own certificate first, those of authorities behind it"
        )
    if error.reason == "KEY_TYPE_MISMATCH":
        return f"{where}: certificate and private key are of two types; put those of one pair there"
    # For PKCS #8 keys the ssl module does not give the reason.
    if is_encrypted and error.reason in {"BAD_DECRYPT", "BAD_PASSWORD_READ", None}:
        return f"{key_at}: ssl.key.password does not open the private key; give the right one"
    if error.reason in {"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}:
        return (
            f"{where}: a key or a signature is too weak ({error.reason}); use at least 2,048 bits "
            "of RSA, or ECDSA, and SHA-256"
        )
    return f"{key_at}: key and certificates cannot be used ({error.reason or error}); make new ones"


def _load_authorities(context: ssl.SSLContext, settings: tls.TlsConfig) -> None:
    """Load the authorities whose clients are accepted."""
    if settings.ssl_truststore_location is not None:
        path, password = settings.ssl_truststore_location, settings.ssl_truststore_password
        source = _read(path, "ssl.truststore", password, tls.TRUST_STORE_COMMAND)
    elif settings.ssl_truststore_certificates:
        source = _Source("ssl.truststore.certificates", settings.ssl_truststore_certificates)
    else:
        return
    blocks = [block for block in read_blocks(source.text) if block.label == "CERTIFICATE"]
    _read_certificates(blocks, source.name)
    try:
        context.load_verify_locations(cadata="".join(block.text for block in blocks))
    except ssl.SSLError as error:
        raise TlsError(
            f"{source.name}: the certificates cannot be used ({error.reason}); write them there "
            "again"
        ) from error


def _rules(settings: tls.TlsConfig) -> tuple[Rule, ...] | None:
    if settings.ssl_principal_mapping_rules.strip() in {"", "DEFAULT"}:
        return None
    from siltstone.config.distinguished_names import parse_rules  # noqa: PLC0415  # re2: few need it

    return parse_rules(settings.ssl_principal_mapping_rules)
