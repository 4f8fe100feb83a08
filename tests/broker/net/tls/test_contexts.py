"""Keys and certificates: what is read, and each fault of a file with its sentence."""

import os
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.net.tls.contexts import Endpoint, TlsError, make_endpoint
from siltstone.config.load import load
from siltstone.config.tls import NEWER_SUITES
from tests.support.authority import Authority, Pair, openssl

LISTEN = "listeners=SSL://127.0.0.1:0"


def endpoint_of(*sets: str) -> Endpoint:
    """Return what a listener with these settings encrypts with."""
    return make_endpoint(load(None, {}, [LISTEN, *sets]).server().tls_listeners()["SSL"])


def fault_of(*sets: str) -> str:
    """Return why it cannot encrypt."""
    with pytest.raises(TlsError) as caught:
        endpoint_of(*sets)
    return str(caught.value)


def one_line(path: Path) -> str:
    """Return a PEM file as one line, as settings in a file of properties have it."""
    return " ".join(path.read_text().split("\n"))


def written(path: Path, *parts: Path | str) -> Path:
    """Return a file with the parts."""
    path.write_text("".join(each if isinstance(each, str) else each.read_text() for each in parts))
    path.chmod(0o600)
    return path


def test_a_store_and_its_dates(server: Pair) -> None:
    """One file with the key and the certificates."""
    endpoint = endpoint_of(f"ssl.keystore.location={server.store}")

    assert endpoint.certificate.subject == "CN=server"
    assert 9 * 86400 < _seconds(endpoint) <= 10 * 86400
    assert endpoint.notes == ()
    assert endpoint.context.verify_mode is ssl.CERT_NONE
    names = {each["name"] for each in endpoint.context.get_ciphers()}
    assert {each for each in names if not each.startswith("TLS_")} == {
        f"ECDHE-{kind}-{suite}"
        for kind in ("RSA", "ECDSA")
        for suite in ("AES256-GCM-SHA384", "AES128-GCM-SHA256", "CHACHA20-POLY1305")
    }


def _seconds(endpoint: Endpoint) -> float:
    certificate: Any = endpoint.certificate
    return float((certificate.not_after - certificate.not_before).total_seconds())


def test_key_and_certificates_may_be_settings(server: Pair, authority: Authority) -> None:
    """Each on one line, as Kafka takes them."""
    endpoint = endpoint_of(
        f"ssl.keystore.key={one_line(server.key)}",
        f"ssl.keystore.certificate.chain={one_line(server.certificate)}",
        f"ssl.truststore.certificates={one_line(authority.certificate)}",
        "ssl.client.auth=required",
    )

    assert endpoint.certificate.subject == "CN=server"
    assert endpoint.context.verify_mode is ssl.CERT_REQUIRED
    assert len(endpoint.context.get_ca_certs()) == 1


def test_an_encrypted_key(tmp_path: Path, server: Pair) -> None:
    """It takes the password, and a wrong one is told."""
    secret = tmp_path / "secret.key"
    openssl("pkcs8", "-topk8", "-in", str(server.key), "-out", str(secret), "-passout", "pass:hush")
    store = f"ssl.keystore.location={written(tmp_path / 's.pem', secret, server.certificate)}"

    assert endpoint_of(store, "ssl.key.password=hush")
    assert "the private key is encrypted; give its ssl.key.password" in fault_of(store)
    wrong = fault_of(store, "ssl.key.password=husk")
    assert "ssl.key.password does not open the private key" in wrong
    assert "husk" not in wrong


def test_suites_and_versions(server: Pair) -> None:
    """A cipher or version that is left out is not served."""
    store = f"ssl.keystore.location={server.store}"

    newer = endpoint_of(store, f"ssl.cipher.suites={','.join(NEWER_SUITES)}").context
    one = endpoint_of(store, "ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").context

    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3
    assert one.maximum_version is ssl.TLSVersion.TLSv1_2
    assert [each["name"] for each in one.get_ciphers() if not each["name"].startswith("TLS_")] == [
        "ECDHE-RSA-AES128-GCM-SHA256"
    ]


def test_a_key_that_everybody_may_read_is_told(tmp_path: Path, server: Pair) -> None:
    """It is used: secrets of Kubernetes are like that."""
    store = written(tmp_path / "s.pem", server.store)
    store.chmod(0o644)

    (note,) = endpoint_of(f"ssl.keystore.location={store}").notes
    assert note == f"{store} holds a private key and everybody may read it; run chmod o= on it"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The path, why, and what to do."""
    assert fault_of(f"ssl.keystore.location={tmp_path}/no.pem") == (
        f"ssl.keystore.location {tmp_path}/no.pem cannot be read: No such file or directory; "
        "check the path, and that the broker's user may read it"
    )


def test_a_path_that_no_file_can_have(server: Pair) -> None:
    """A fault like any other: clients that alter settings may send one."""
    store = f"ssl.keystore.location={server.store}"

    assert fault_of("ssl.keystore.location=a\0b") == (
        "ssl.keystore.location is no path of a file; name a PEM file"
    )
    assert fault_of(store, "ssl.truststore.location=a\0b", "ssl.client.auth=required") == (
        "ssl.truststore.location is no path of a file; name a PEM file"
    )


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A client that may alter settings would stop a thread with each one that nobody writes to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert fault_of(f"ssl.keystore.location={pipe}") == (
        f"ssl.keystore.location {pipe} is no regular file; name a PEM file"
    )


@pytest.mark.parametrize("kind", ["key", "certificate", "nothing", "text"])
def test_a_store_that_lacks_something(tmp_path: Path, server: Pair, kind: str) -> None:
    """A missing part is named."""
    parts: dict[str, tuple[Path | str, ...]] = {
        "key": (server.certificate,),
        "certificate": (server.key,),
        "nothing": (),
        "text": ("hello\n",),
    }
    store = written(tmp_path / "s.pem", *parts[kind])

    fault = fault_of(f"ssl.keystore.location={store}")

    assert fault.startswith(f"ssl.keystore.location {store} has no ")
    words = {"key": "no private key; put", "certificate": "no certificate; put"}
    assert words.get(kind, "no block of PEM (-----BEGIN …); name a PEM file") in fault


def test_a_damaged_certificate(tmp_path: Path, server: Pair) -> None:
    """Which of them, so that one can look."""
    lines = server.certificate.read_text().splitlines()
    cut = "\n".join([*lines[:3], lines[-1], ""])
    store = written(tmp_path / "s.pem", server.key, server.certificate, cut)

    assert "certificate 2 cannot be read: " in fault_of(f"ssl.keystore.location={store}")


def test_a_damaged_key(tmp_path: Path, server: Pair) -> None:
    """OpenSSL's reason is passed on."""
    lines = server.key.read_text().splitlines()
    cut = "\n".join([lines[0], lines[1][:40], lines[-1], ""])
    store = written(tmp_path / "s.pem", cut, server.certificate)

    assert "key and certificates cannot be used (" in fault_of(f"ssl.keystore.location={store}")


def test_a_key_of_another_certificate(tmp_path: Path, server: Pair, ann: Pair) -> None:
    """Or certificates in the wrong order."""
    store = written(tmp_path / "s.pem", ann.key, server.certificate)

    assert "the first certificate does not belong to the private key; put the broker's own" in (
        fault_of(f"ssl.keystore.location={store}")
    )


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (("20200101000000Z", "20200102000000Z"), "expired on 2020-01-02 00:00 UTC; put a new one"),
        (("20990101000000Z", "20990102000000Z"), "counts from 2099-01-01 00:00 UTC on; wait, or"),
    ],
)
def test_a_certificate_out_of_its_time(
    authority: Authority, days: tuple[str, str], words: str
) -> None:
    """No client would take it."""
    store = authority.issue("mayfly", days=days).store

    fault = fault_of(f"ssl.keystore.location={store}")

    assert fault.startswith(f"ssl.keystore.location {store}: the certificate of CN=mayfly {words}")


def test_a_weak_key(authority: Authority) -> None:
    """RSA of 1,024 bits has been within reach for years."""
    weak = authority.issue("weak", kind=("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"))

    assert "too weak (EE_KEY_TOO_SMALL)" in fault_of(f"ssl.keystore.location={weak.store}")


def pkcs12(server: Pair, path: Path, *more: str) -> Path:
    """Write a store of type PKCS12 with the password hushhush."""
    openssl(
        "pkcs12", "-export", "-inkey", str(server.key), "-in", str(server.certificate),
        "-out", str(path), "-passout", "pass:hushhush", *more,
    )  # fmt: skip
    return path


def test_a_store_of_java_that_is_refused(tmp_path: Path, server: Pair) -> None:
    """The command that converts one is in the sentence, with its path, and works."""
    jks = tmp_path / "s.jks"
    jks.write_bytes(bytes.fromhex("feedfeed00000002"))
    store = pkcs12(server, tmp_path / "store.p12")

    converts = f"is not read; convert it by keytool -importkeystore -srckeystore {jks}"
    fault = fault_of(f"ssl.keystore.location={jks}", "ssl.keystore.type=JKS")
    assert f"is a JKS store, which {converts}" in fault
    assert "openssl pkcs12 -in store.p12 -out store.pem" in fault
    made = tmp_path / "store.pem"
    openssl(
        "pkcs12", "-in", str(store), "-out", str(made),
        "-passin", "pass:hushhush", "-passout", "pass:hush",
    )  # fmt: skip
    assert endpoint_of(f"ssl.keystore.location={made}", "ssl.key.password=hush")


@pytest.mark.parametrize("type_", ["", "ssl.keystore.type=PKCS12", "ssl.keystore.type=jks"])
def test_a_store_that_is_pkcs12(
    tmp_path: Path, server: Pair, authority: Authority, type_: str
) -> None:
    """It is read whatever its type is said to be, as Java reads one that it calls JKS."""
    pytest.importorskip("cryptography")
    store = pkcs12(server, tmp_path / "s.jks", "-certfile", str(authority.certificate))

    made = endpoint_of(
        f"ssl.keystore.location={store}",
        "ssl.keystore.password=hushhush",
        "ssl.key.password=hushhush",
        *filter(None, [type_]),
    )

    assert made.certificate.subject == "CN=server"
    assert "PRIVATE" not in made.pem


def test_a_store_with_another_password(tmp_path: Path, server: Pair) -> None:
    """Is refused without the password, with the setting that lacks it."""
    pytest.importorskip("cryptography")
    store = pkcs12(server, tmp_path / "s.p12")
    cut = tmp_path / "cut.p12"
    cut.write_bytes(store.read_bytes()[:-30])

    for path, *sets in ((store, "ssl.keystore.password=wrong"), (store,), (cut,)):
        fault = fault_of(f"ssl.keystore.location={path}", *sets)
        assert f"{path} cannot be opened: it is no PKCS12, or its password is another" in fault
        assert "give it as ssl.keystore.password, or convert the store by keytool" in fault
        assert "wrong" not in fault


def test_a_store_where_nothing_reads_one(
    tmp_path: Path, server: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which package to install, and how to do without."""
    store = pkcs12(server, tmp_path / "s.p12")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)

    fault = fault_of(f"ssl.keystore.location={store}", "ssl.keystore.password=hushhush")

    assert "is PKCS12, which is read where cryptography is installed" in fault
    assert "openssl pkcs12 -in store.p12 -out store.pem" in fault


def test_a_trust_store_that_is_pkcs12(tmp_path: Path, server: Pair, authority: Authority) -> None:
    """As keytool -importcert makes it, without any key."""
    pytest.importorskip("cryptography")
    trust = tmp_path / "trust.p12"
    openssl(
        "pkcs12", "-export", "-nokeys", "-in", str(authority.certificate),
        "-out", str(trust), "-passout", "pass:hushhush",
    )  # fmt: skip

    made = endpoint_of(
        f"ssl.keystore.location={server.store}",
        f"ssl.truststore.location={trust}",
        "ssl.truststore.password=hushhush",
        "ssl.truststore.type=PKCS12",
        "ssl.client.auth=required",
    )

    assert [each["subject"] for each in made.context.get_ca_certs()] == [
        ((("commonName", "authority"),),)
    ]


def test_a_password_of_a_file_without_one(tmp_path: Path, server: Pair) -> None:
    """As in Kafka, that is refused: somebody believes that the file is encrypted."""
    store = f"ssl.keystore.location={server.store}"

    assert "is PEM, which has no password, but ssl.keystore.password is set" in fault_of(
        store, "ssl.keystore.password=x"
    )
    assert "is PEM, which has no password, but ssl.truststore.password is set" in fault_of(
        store, f"ssl.truststore.location={server.certificate}", "ssl.truststore.password=x"
    )


def test_a_trust_store_without_certificates(tmp_path: Path, server: Pair) -> None:
    """Nobody could ever be let in."""
    trust = written(tmp_path / "trust.pem", server.key)

    fault = fault_of(
        f"ssl.keystore.location={server.store}",
        f"ssl.truststore.location={trust}",
        "ssl.client.auth=required",
    )

    assert fault.startswith(f"ssl.truststore.location {trust} has no certificate; put one there")
