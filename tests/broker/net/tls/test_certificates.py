"""The fields of a certificate, read from its DER."""

import base64
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.net.tls.certificates import read_block, read_blocks, read_certificate
from tests.support.authority import Authority, Pair
from tests.support.programs import run_to_end


def subject_of(path: Path) -> str:
    """Return the name in a certificate."""
    (block,) = read_blocks(path.read_text())
    return read_block(block).subject


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("/CN=ann", "CN=ann"),
        ("/C=US/ST=Ohio/L=Lima/O=Mill/OU=Ops/CN=ann", "CN=ann,OU=Ops,O=Mill,L=Lima,ST=Ohio,C=US"),
        ("/DC=org/DC=mill/UID=u1/CN=ann", "CN=ann,UID=u1,DC=mill,DC=org"),
        ("/O=a, b; c/CN=x", "CN=x,O=a\\, b\\; c"),
        ("/O=#1/CN= x ", "CN=\\ x\\ ,O=\\#1"),
        ("/CN=Zoë", "CN=Zoë"),
        ("/CN=a\\\\b", "CN=a\\\\b"),
    ],
)
def test_names_are_those_that_java_writes(authority: Authority, given: str, name: str) -> None:
    """As of RFC 2253, the last part first."""
    assert subject_of(authority.issue("subject", given).certificate) == name


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        ("a#b", _ASN1Type.UTF8String, "a\\#b"),
        ("  two  ", _ASN1Type.UTF8String, "\\ \\ two\\ \\ "),
        ("   ", _ASN1Type.UTF8String, "\\ \\ \\ "),
        ("a\0b", _ASN1Type.UTF8String, "a\\00b"),
        ("\ra\nb\r", _ASN1Type.UTF8String, "\\\ra\nb\\\r"),
        ("名 \u202e", _ASN1Type.UTF8String, "名 \u202e"),
        ("ann", _ASN1Type.T61String, "ann"),
        ("ann", _ASN1Type.BMPString, "\\00a\\00n\\00n"),
        ("Ö", _ASN1Type.BMPString, "\\00\ufffd"),
        ("é", _ASN1Type.T61String, "é"),
        ("an", _ASN1Type.UniversalString, "#1c08000000610000006e"),
        ("12", _ASN1Type.NumericString, "#12023132"),
    ],
)
def test_odd_names_are_those_that_java_writes(given: str, kind: _ASN1Type, name: str) -> None:
    """Else rules for a client of Apache Kafka would not be those for the same client here."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "anybody")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, given, kind)])
    made = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2027, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )

    assert read_certificate(made.public_bytes(Encoding.DER)).subject == f"CN={name}"


def test_a_part_without_a_keyword_is_its_number(authority: Authority) -> None:
    """And its value is DER, so that no two names are written alike (as Java does)."""
    pair = authority.issue("subject", "/CN=a/emailAddress=a@b")

    assert subject_of(pair.certificate) == "1.2.840.113549.1.9.1=#1603614062,CN=a"


def test_dates_are_those_that_openssl_tells(server: Pair) -> None:
    """To the second."""
    (block,) = read_blocks(server.certificate.read_text())
    told = run_to_end(
        [
            "openssl",
            "x509",
            "-in",
            server.certificate,
            "-noout",
            "-enddate",
            "-dateopt",
            "iso_8601",
        ],
        check=True,
    ).stdout.strip()

    assert told == f"notAfter={read_block(block).not_after:%Y-%m-%d %H:%M:%SZ}"


@given(st.data())
def test_damaged_certificates_are_refused(server: Pair, data: st.DataObject) -> None:
    """By a ValueError, whatever is in them, or they are read."""
    (block,) = read_blocks(server.certificate.read_text())
    der = bytearray(base64.b64decode("".join(block.text.splitlines()[1:-1])))
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        read_certificate(bytes(der[: data.draw(st.integers(0, len(der)))]))


@given(st.binary(max_size=64))
def test_bytes_that_are_no_certificate_are_refused(junk: bytes) -> None:
    """By a ValueError."""
    with pytest.raises(ValueError, match=r"it |unpack|data|format"):
        read_certificate(junk)
