"""Prices, from asyncio code with aiokafka: the same fixtures."""

import pytest
from shop.prices import Prices

from siltstone.testing import Kafka


async def test_the_last_price_counts(kafka: Kafka, kafka_topic: str) -> None:
    """Also for a reader whose connection breaks."""
    prices = Prices(kafka.bootstrap_servers, kafka_topic)
    await prices.set("tea", 4)
    await prices.set("tea", 5)
    kafka.fail_next("Fetch", error="DISCONNECT")

    assert await prices.read() == {"tea": 5}


@pytest.mark.kafka_topic(config={"cleanup.policy": "compact"})
async def test_an_article_that_is_taken_out_vanishes(kafka: Kafka, kafka_topic: str) -> None:
    """First the tombstone takes its price, and a day later it goes itself."""
    prices = Prices(kafka.bootstrap_servers, kafka_topic)
    await prices.set("tea", 4)
    await prices.set("tea", None)
    kafka.compact(kafka_topic)
    assert await prices.history() == [("tea", None)]

    kafka.clock.advance(hours=25)
    await prices.set("milk", 1)
    kafka.compact(kafka_topic)

    assert await prices.history() == [("milk", b"1")]
