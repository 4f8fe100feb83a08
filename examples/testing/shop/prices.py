"""The latest price of each article, from a compacted topic, with aiokafka."""

from __future__ import annotations

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


class Prices:
    """Prices as partition 0 of a topic has them; no value is no price any more."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic

    async def set(self, article: str, price: int | None) -> None:
        """Write a price; None takes the article out."""
        async with AIOKafkaProducer(bootstrap_servers=self._bootstrap_servers) as producer:
            value = None if price is None else str(price).encode()
            await producer.send_and_wait(self._topic, value, article.encode(), partition=0)

    async def read(self) -> dict[str, int]:
        """Return the latest price of each article."""
        prices: dict[str, int] = {}
        for article, value in await self.history():
            if value is None:
                prices.pop(article, None)
            else:
                prices[article] = int(value)
        return prices

    async def history(self) -> list[tuple[str, bytes | None]]:
        """Return every record that is left."""
        partition = TopicPartition(self._topic, 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap_servers)
        async with consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            found: list[tuple[str, bytes | None]] = []
            while await consumer.position(partition) < end:
                records = (await consumer.getmany(timeout_ms=1000)).get(partition, [])
                found += [(record.key.decode(), record.value) for record in records]
            return found
