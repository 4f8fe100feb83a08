"""TLS by the settings of Kafka's clients: what is read, what librdkafka is told, each fault."""

import ssl
from pathlib import Path

import pytest

from siltstone.pipeline.client.tls import for_librdkafka, make_context, unfold
from siltstone.pipeline.errors import BadOption
from tests.support.authority import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The signer of certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


def trusted(context: ssl.SSLContext) -> list[object]:
    """Return whom a context trusts."""
    return [each["subject"] for each in context.get_ca_certs()]


def test_authorities_may_stand_in_the_settings(authority: Authority) -> None:
    """With lines, and as Kafka's properties have them in one; no others are trusted then."""
    text = authority.certificate.read_text()
    told = {"ssl.truststore.location": str(authority.certificate)}
    expected = trusted(make_context(told))

    assert expected == [((("commonName", "authority"),),)]
    for each in (text, " ".join(text.splitlines())):
        given = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": each}
        assert trusted(make_context(given)) == expected
        assert for_librdkafka(given) == {"ssl.ca.pem": text}


def test_a_certificate_of_the_client(authority: Authority) -> None:
    """From one file, or from two settings; librdkafka is told both by its names."""
    pair = authority.issue("ann")
    one = {"ssl.keystore.location": str(pair.store), "ssl.key.password": "x"}
    two = {
        "ssl.keystore.certificate.chain": pair.certificate.read_text(),
        "ssl.keystore.key": " ".join(pair.key.read_text().splitlines()),
    }
    for each in (one, two):
        assert make_context(each)

    path = str(pair.store)
    assert for_librdkafka(one) == {
        "ssl.certificate.location": path,
        "ssl.key.location": path,
        "ssl.key.password": "x",
    }
    assert for_librdkafka(two) == {
        "ssl.certificate.pem": unfold(two["ssl.keystore.certificate.chain"]),
        "ssl.key.pem": pair.key.read_text(),
    }
    with pytest.raises(BadOption, match="check that they belong together"):
        make_context(two | {"ssl.keystore.key": authority.key.read_text()})


def test_who_does_not_look_at_the_name() -> None:
    """Java says it by an empty word, librdkafka by another."""
    given = {"ssl.endpoint.identification.algorithm": ""}

    assert not make_context(given).check_hostname
    assert make_context({}).check_hostname
    assert for_librdkafka(given) == {"ssl.endpoint.identification.algorithm": "none"}


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_store_that_is_not_pem(tmp_path: Path, name: str) -> None:
    """Is named, with the command that converts it; so is a file that does not exist."""
    store = tmp_path / "store.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002"))

    with pytest.raises(BadOption, match=f"kafka.{name}={store} is not PEM.* keytool -importkey"):
        make_context({name: str(store)})
    with pytest.raises(BadOption, match=f"kafka.{name}=/nowhere cannot be read: No such file"):
        make_context({name: "/nowhere"})
    with pytest.raises(BadOption, match="has no certificate as PEM"):
        make_context({"ssl.truststore.certificates": "-----BEGIN NOTHING-----"})
