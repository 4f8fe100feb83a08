"""Which client is asked for which metrics, how often it may push, and what is kept of it."""

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from siltstone.broker.telemetry import Client, Pushed, Telemetry, check_subscription
from siltstone.protocol.errors import (
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.otlp import Point
from tests.support.clock import FakeClock

CLIENT = Client("", "billing-7", "apache-kafka-java", "4.3.1", "10.0.0.9", "51234")
ZSTD = 4


class Broker:
    """Telemetry with subscriptions that a test sets."""

    def __init__(self, **subscriptions: dict[str, str]) -> None:
        server = SimpleNamespace(telemetry_max_bytes=1000, metrics_max_client_series=100)
        self.settings = SimpleNamespace(client_metrics=subscriptions, server=server)
        self.clock = FakeClock()
        self.telemetry = Telemetry(cast("Any", self.settings), self.clock)

    def ask(self, instance_id: bytes = NO_ID, client: Client = CLIENT) -> Any:
        """Ask for the subscription."""
        return self.telemetry.subscribe(instance_id, client)

    def push(self, instance: Any, codec: int = ZSTD, size: int = 10, **changes: Any) -> Any:
        """Push as an instance that has asked."""
        given = {"subscription": instance.subscription.id, **changes}
        return self.telemetry.admit(instance.id, CLIENT, given["subscription"], codec, size)


def test_without_a_subscription_nothing_is_asked_for() -> None:
    """No metric, and no sooner than in five minutes."""
    subscription = Broker().ask().subscription

    assert subscription.prefixes == ()
    assert subscription.interval_ms == 300_000


def test_subscriptions_that_match_are_joined() -> None:
    """All prefixes of those that match the whole of a name, the shortest interval."""
    broker = Broker(
        all={"metrics": "org.apache.kafka.consumer.", "interval.ms": "60000"},
        java={"metrics": "a.,b.", "interval.ms": "5000", "match": "client_software_name=.*java"},
        part={"metrics": "c.", "interval.ms": "100", "match": "client_id=billing"},
        both={"metrics": "d.", "match": "client_id=billing-[0-9], client_source_port=51234"},
    )

    subscription = broker.ask().subscription

    assert subscription.prefixes == ("a.", "b.", "d.", "org.apache.kafka.consumer.")
    assert subscription.interval_ms == 5000


def test_the_last_of_two_expressions_for_the_same_counts() -> None:
    """As in Apache Kafka."""
    broker = Broker(
        first={"metrics": "a.", "match": "client_id=billing-7,client_id=other"},
        last={"metrics": "b.", "match": "client_id=other,client_id=billing-7"},
    )

    assert broker.ask().subscription.prefixes == ("b.",)


def test_a_star_asks_for_all() -> None:
    """As one empty text on the wire."""
    assert Broker(one={"metrics": "a."}, two={"metrics": "*"}).ask().subscription.prefixes == ("",)


def test_the_id_of_the_instance_can_be_chosen() -> None:
    """A new client gets an id, keeps it, and may be singled out by it."""
    broker = Broker()
    first = broker.ask()
    name = first.client.instance_id
    broker.settings.client_metrics = {
        "one": {"metrics": "a.", "match": f"client_instance_id={name}"}
    }

    assert broker.ask(first.id).subscription.prefixes == ("a.",)
    assert broker.ask().subscription.prefixes == ()


def test_who_asks_or_pushes_too_often_is_told() -> None:
    """One push right after asking, then one in an interval."""
    broker = Broker(one={"metrics": "*", "interval.ms": "1000"})
    instance = broker.ask()
    broker.push(instance)

    with pytest.raises(ThrottlingQuotaExceeded):
        broker.push(instance)
    with pytest.raises(ThrottlingQuotaExceeded):
        broker.ask(instance.id)
    broker.clock.advance(1000)
    assert broker.push(instance) is instance


def test_a_change_is_told_by_the_next_push() -> None:
    """The client asks again at once, although its interval is not over."""
    broker = Broker(one={"metrics": "a."})
    instance = broker.ask()
    old = instance.subscription.id
    broker.settings.client_metrics = {"one": {"metrics": "b."}}

    with pytest.raises(UnknownSubscriptionId):
        broker.push(instance, subscription=old)
    assert broker.ask(instance.id).subscription.prefixes == ("b.",)


REFUSED: dict[str, tuple[dict[str, int], type[KafkaError]]] = {
    "an unknown codec": ({"codec": 9}, UnsupportedCompressionType),
    "too large": ({"size": 1001}, TelemetryTooLarge),
    "another subscription": ({"subscription": 5}, UnknownSubscriptionId),
}


@pytest.mark.parametrize(("changes", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_taken_is_refused(changes: dict[str, Any], error: type[KafkaError]) -> None:
    """With Kafka's code for it."""
    broker = Broker(one={"metrics": "*"})

    with pytest.raises(error):
        broker.push(broker.ask(), **changes)


def test_who_never_asked_or_has_ended_pushes_nothing() -> None:
    """Without an id, and after the last push."""
    broker = Broker(one={"metrics": "*", "interval.ms": "100"})
    instance = broker.ask()
    broker.telemetry.end(broker.push(instance))
    broker.clock.advance(1000)

    with pytest.raises(InvalidRequest):
        broker.push(instance)
    with pytest.raises(InvalidRequest):
        broker.telemetry.admit(NO_ID, CLIENT, 0, ZSTD, 1)


def test_only_what_was_asked_for_is_kept_and_not_for_ever() -> None:
    """A client that is silent for three intervals is told no more."""
    broker = Broker(one={"metrics": "a.", "interval.ms": "1000"})
    instance = broker.push(broker.ask())
    broker.telemetry.keep(instance, Pushed([Point("a.x", (), 1.0), Point("b.x", (), 2.0)], 500, 0))

    assert [each.name for each in instance.points] == ["a.x"]
    broker.clock.advance(3000)
    assert list(broker.telemetry.alive()) == [instance]
    broker.clock.advance(1)
    assert list(broker.telemetry.alive()) == []


def test_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks as another each time makes others begin again, not the memory grow."""
    monkeypatch.setattr("siltstone.broker.telemetry._MAX_INSTANCES", 10)
    broker = Broker(one={"metrics": "*"})
    first = broker.ask()
    for _ in range(10):
        broker.ask()

    assert broker.ask(first.id) is not first


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"metric": "a."}, "metric is no setting"),
        ({"interval.ms": "99"}, "from 100 to 3600000"),
        ({"match": "client_id"}, "NAME=EXPRESSION"),
        ({"match": "host=a"}, "client_software_name"),
        ({"match": "client_id=("}, "missing )"),
    ],
)
def test_faulty_settings_are_refused(own: dict[str, str], said: str) -> None:
    """In a sentence that says what may be."""
    error = InvalidConfig if "match" in own else InvalidRequest
    with pytest.raises(error, match=re.escape(said)):
        check_subscription(own)


def test_what_clients_say_of_themselves_is_cut_off() -> None:
    """After all of it was matched: a client id may have 32 KiB, of each of very many clients."""
    long = "x" * 30_000
    broker = Broker(one={"metrics": "a.", "match": "client_id=x{1000}.*"})
    instance = broker.ask(client=CLIENT._replace(client_id=long, software_name=long))

    assert instance.subscription.prefixes == ("a.",)
    assert len(instance.client.client_id) == len(instance.client.software_name) == 256


def test_points_have_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all clients together; the last one to push keeps none."""
    monkeypatch.setattr("siltstone.broker.telemetry._MAX_BYTES", 1000)
    broker = Broker(one={"metrics": "*", "interval.ms": "1000"})
    one, two = broker.push(broker.ask()), broker.push(broker.ask())
    broker.telemetry.keep(one, Pushed([Point("a", (), 1.0)], 900, 0))
    broker.telemetry.keep(two, Pushed([Point("a", (), 1.0)], 900, 0))

    assert (len(one.points), one.omitted) == (1, 0)
    assert (len(two.points), two.omitted) == (0, 1)
    assert broker.telemetry.find_room(two).size == 100
    broker.clock.advance(3001)
    assert broker.telemetry.find_room(two).size == 100
    assert list(broker.telemetry.alive()) == []
    assert broker.telemetry.find_room(two).size == 1000


def test_expressions_of_subscriptions_are_short() -> None:
    """All of them are compiled in one turn, when a client asks for the first time."""
    for text in ("x" * 1001, r"\\pL" * 3):
        with pytest.raises(InvalidConfig):
            check_subscription({"metrics": "*", "match": f"client_id={text}"})
