"""Subscriptions to metrics of clients, from their settings to the series of the metrics page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.http.metrics.exposition import Scrapes
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.api_versions import ApiVersionsRequest
from siltstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from siltstone.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from siltstone.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from siltstone.protocol.messages.list_config_resources import ListConfigResourcesRequest
from siltstone.protocol.messages.push_telemetry import PushTelemetryRequest
from siltstone.protocol.records.compression import compress
from tests.protocol.test_otlp import gauge, label, metrics, number, part
from tests.support.ask import ask
from tests.support.metrics import make_sources
from tests.support.services import ServicesOnDisk

METRICS = 16
NONE, ZSTD = 0, 4
DATA = metrics(
    gauge("org.apache.kafka.consumer.lag", number(12.5, label("topic", part(1, "orders")))),
    gauge("org.apache.kafka.producer.sent", number(3)),
)


async def alter(home: ServicesOnDisk, name: str, **values: str | None) -> int:
    """Set or delete settings of a subscription, with _ for a dot; return the code."""
    configs = [
        AlterableConfig(key.replace("_", "."), 1 if value is None else 0, value)
        for key, value in values.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(METRICS, name, configs)])
    [answer] = (await ask(home, 44, request)).responses
    return int(answer.error_code)


async def subscribe(home: ServicesOnDisk, instance_id: bytes = NO_ID) -> Any:
    """Ask what to push."""
    return await ask(home, 71, GetTelemetrySubscriptionsRequest(instance_id))


async def push(home: ServicesOnDisk, told: Any, codec: int = NONE, data: bytes = DATA) -> int:
    """Push as a client that was told its subscription."""
    instance = told.client_instance_id.bytes
    request = PushTelemetryRequest(instance, told.subscription_id, False, codec, data)
    return int((await ask(home, 72, request)).error_code)


def series(home: ServicesOnDisk, limit: int = 100) -> list[str]:
    """Return the lines of the metrics page that clients have pushed."""
    sources = replace(
        make_sources({}), telemetry=home.services.telemetry, max_client_series=lambda: limit
    )
    text = "".join(line for line in Scrapes(sources).lines() if line)
    return [
        line for line in text.splitlines() if "client_series" in line or "siltstone_client_" in line
    ]


async def test_a_subscription_is_kept_described_and_listed(tmp_path: Path) -> None:
    """The settings of a client metrics resource outlive a restart; without settings it is gone."""
    home = await ServicesOnDisk(tmp_path / "root").open()
    assert await alter(home, "lag", metrics="org.", interval_ms="1000") == 0
    await home.close()
    home = await ServicesOnDisk(tmp_path / "root").open()
    named = DescribeConfigsRequest([DescribeConfigsResource(METRICS, "lag", None)], True)
    [described] = (await ask(home, 32, named)).results
    listed = (await ask(home, 74, ListConfigResourcesRequest([METRICS]))).config_resources
    assert await alter(home, "lag", metrics=None, interval_ms=None) == 0
    after = (await ask(home, 74, ListConfigResourcesRequest([METRICS]))).config_resources
    await home.close()

    assert {each.name: (each.value, each.config_source) for each in described.configs} == {
        "interval.ms": ("1000", 7), "match": ("", 5), "metrics": ("org.", 7)
    }  # fmt: skip
    assert {each.name: [of.source for of in each.synonyms] for each in described.configs} == {
        "interval.ms": [7], "match": [], "metrics": [7]
    }  # fmt: skip
    assert [each.resource_name for each in listed] == ["lag"]
    assert list(after) == []


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"metrics": "a.", "interval_ms": "5"}, ErrorCode.invalid_request),
        ({"match": "client_id=("}, ErrorCode.invalid_config),
        ({"match": "client_id="}, ErrorCode.invalid_config),
        ({"match": "client_id=a=b"}, ErrorCode.invalid_config),
        ({"interval_ms": "soon"}, ErrorCode.invalid_config),
        ({"metrics": "a.,,b."}, ErrorCode.invalid_config),
        ({"colour": "red"}, ErrorCode.invalid_request),
    ],
)
async def test_a_faulty_subscription_changes_nothing(
    home: ServicesOnDisk, values: dict[str, str], code: ErrorCode
) -> None:
    """It is refused with what is wrong."""
    assert await alter(home, "lag", **values) == code.value
    assert home.services.settings.client_metrics == {}


async def test_apis_are_named_while_there_is_a_subscription(home: ServicesOnDisk) -> None:
    """Clients ask each broker that names them, so none is asked for nothing."""

    async def named() -> set[int]:
        answer = await ask(home, 18, ApiVersionsRequest("librdkafka", "2.1"))
        return {each.api_key for each in answer.api_keys} & {71, 72}

    before = await named()
    await alter(home, "lag", metrics="*")

    assert before == set()
    assert await named() == {71, 72}


async def test_a_client_keeps_its_id(home: ServicesOnDisk) -> None:
    """A client without an id is given one; a client with an id is told it again."""
    given = (await subscribe(home)).client_instance_id

    home.clock.advance(300_000)

    assert given.int
    assert (await subscribe(home, given.bytes)).client_instance_id == given


@pytest.mark.parametrize("codec", range(5))
async def test_what_a_client_pushes_becomes_series(home: ServicesOnDisk, codec: int) -> None:
    """By every codec, as far as it was asked for, with the client's names."""
    await alter(home, "lag", metrics="org.apache.kafka.consumer.")
    told = await subscribe(home)

    assert told.requested_metrics == ("org.apache.kafka.consumer.",)
    assert told.delta_temporality is False
    assert await push(home, told, codec, compress(codec, DATA)) == 0
    [_, _, line, *_] = [each for each in series(home) if "siltstone_client_consumer" in each]
    assert line.startswith("siltstone_client_consumer_lag{client_id=")
    assert line.endswith('topic="orders"} 12.5')
    assert not any("producer" in each for each in series(home))


async def test_series_of_clients_are_bounded(home: ServicesOnDisk) -> None:
    """Points that are too many are counted, whatever a client calls them."""
    await alter(home, "lag", metrics="*", interval_ms="100")
    odd = [gauge(f'a{n}.b-c"\n', number(1.0, label("__x", part(1, 'q"')))) for n in range(50)]
    assert await push(home, await subscribe(home), NONE, metrics(*odd)) == 0

    lines = series(home, limit=20)
    told = [each for each in lines if each.startswith("siltstone_client_a")]

    assert len(told) == 20
    assert 'label___x="q\\""' in told[0]
    assert "siltstone_client_series_omitted 30" in lines


async def test_what_clients_make_the_broker_keep_is_bounded(tmp_path: Path) -> None:
    """All of them together, until one ends or is silent; what is too many is counted."""
    home = await ServicesOnDisk(tmp_path, metrics_max_client_series="10").open()
    try:
        await alter(home, "lag", metrics="a", interval_ms="1000")
        eight = metrics(
            *(gauge(f"a{each}", number(1.0)) for each in range(8)), gauge("b", number(1.0))
        )
        first, second = await subscribe(home), await subscribe(home)
        for told in (first, second):
            assert await push(home, told, NONE, eight) == 0
        full = series(home)
        home.clock.advance(3001)
        assert await push(home, second, NONE, eight) == 0
        after = series(home)
    finally:
        await home.close()

    assert [
        sum(line.startswith("siltstone_client_a") for line in each) for each in (full, after)
    ] == [10, 8]
    assert "siltstone_client_series_omitted 6" in full
    assert "siltstone_client_series_omitted 0" in after


async def test_what_nobody_asks_for_is_not_read(home: ServicesOnDisk) -> None:
    """A client that pushes without a subscription costs nothing, whatever it sends."""
    assert await push(home, await subscribe(home), ZSTD, b"junk") == 0
    assert not any(each.startswith("siltstone_client_a") for each in series(home))


@pytest.mark.parametrize(
    ("codec", "data", "code"),
    [
        (ZSTD, b"junk", ErrorCode.invalid_record),
        (NONE, b"\x0a\xff", ErrorCode.invalid_record),
        (7, DATA, ErrorCode.unsupported_compression_type),
        (NONE, bytes(1 << 21), ErrorCode.telemetry_too_large),
        (ZSTD, compress(ZSTD, bytes(50 << 20)), ErrorCode.invalid_record),
    ],
    ids=["junk for a codec", "no metrics", "no codec", "too large", "a bomb"],
)
async def test_what_is_no_metrics_is_refused(
    home: ServicesOnDisk, codec: int, data: bytes, code: ErrorCode
) -> None:
    """And leaves no series."""
    await alter(home, "lag", metrics="*")

    assert await push(home, await subscribe(home), codec, data) == code.value
    assert not any(each.startswith("siltstone_client_a") for each in series(home))
