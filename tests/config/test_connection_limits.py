"""Limits to connections of some addresses, and of one listener."""

import pytest

from siltstone.config.connection_limits import limit_of, parse_overrides
from siltstone.config.errors import ConfigError, NotAlterableError
from siltstone.config.load import load


def test_addresses_have_their_limits() -> None:
    """An address of IPv6 has colons of its own, and is the same however it is written."""
    text = "192.0.2.1:100, 2001:db8:0::1:0 ,"

    assert parse_overrides(text) == {"192.0.2.1": 100, "2001:db8::1": 0}
    assert parse_overrides("") == {}


@pytest.mark.parametrize("text", ["192.0.2.1", "localhost:5", "192.0.2.1:-1", "192.0.2.1:x"])
def test_what_is_no_list_of_addresses_stops_the_start(text: str) -> None:
    """A name is not resolved: what it stands for may change."""
    with pytest.raises(ConfigError, match="must be a list of ADDRESS:COUNT"):
        load(None, {}, [f"max.connections.per.ip.overrides={text}"]).server()


LIMITS = ("max.connections", "max.connection.creation.rate")


@pytest.mark.parametrize("limit", LIMITS)
def test_one_listener_has_a_limit(limit: str) -> None:
    """Its name stands in lower case in the setting; another listener has none."""
    name = f"listener.name.plaintext.{limit}"
    server = load(None, {}, [f"{name}=5"]).server()

    assert limit_of(server.listener_settings, "PLAINTEXT", limit) == 5
    assert limit_of(server.listener_settings, "LAN", limit) is None


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    ("listener", "value", "words"),
    [
        ("plaintext", "-1", "must be at least"),
        ("plaintext", "many", "must be"),
        ("lan", "5", "which is not in listeners"),
        ("http", "5", "which is not in listeners"),
    ],
)
def test_a_limit_that_cannot_be_kept_stops_the_start(
    limit: str, listener: str, value: str, words: str
) -> None:
    """A text that is no number, and a listener that does not speak Kafka's protocol."""
    with pytest.raises(ConfigError, match=words):
        load(None, {}, [f"listener.name.{listener}.{limit}={value}"])


def test_a_limit_of_a_listener_may_change_while_it_runs() -> None:
    """As Kafka's, of one broker and of all; other settings of a listener may not."""
    layers = load(None, {}, [])
    values = {f"listener.name.plaintext.{limit}": "5" for limit in LIMITS}
    for cluster in (True, False):
        assert layers.check_dynamic(values, cluster=cluster) == ()
    changed = layers.with_dynamic(broker=values).server()

    assert limit_of(changed.listener_settings, "PLAINTEXT", LIMITS[0]) == 5
    with pytest.raises(ConfigError, match="must be at least"):
        layers.check_dynamic(dict.fromkeys(values, "-1"))
    with pytest.raises(NotAlterableError, match="restart it with it"):
        layers.check_dynamic({"listener.name.plaintext.sasl.server.max.receive.size": "5"})
