"""Produces to one partition, and fetches from it, over a socket, by kio."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.records.record import iterate_records
from tests.support.batches import make_batch
from tests.support.common_requests import create_topics
from tests.support.kio_messages import request
from tests.support.ports import address_of
from tests.support.produce_requests import request_entity
from tests.support.running import Caller, Client

STORAGE_ERROR = KafkaStorageError.code.value


class Traffic:
    """One connection, and the topic of one partition that its requests name."""

    def __init__(self, caller: Caller, topic: str) -> None:
        self.caller = caller
        self.topic = topic

    @classmethod
    async def connect(cls, address: str, topic: str) -> "Traffic":
        """Open a connection to ``host:port``."""
        opened = await asyncio.open_connection(*address_of(address))
        return cls(Caller(Client(*opened)), topic)

    async def create(self, configs: Mapping[str, Any] | None = None, partitions: int = 1) -> int:
        """Create the topic; return the error code."""
        wanted = create_topics(self.topic, partitions=partitions, **configs or {})
        return int((await self.caller.ask(wanted)).topics[0].error_code)

    async def takes(self, value: bytes) -> bool:
        """Append a record; return whether that succeeded."""
        return not await self.produce(value)

    async def produce(self, value: bytes, rows: int = 1, **fields: int) -> int:
        """Append a batch of equal records, with these fields; return the error code."""
        answer = await self.caller.ask(self._produce_request(value, rows, acks=-1, **fields))
        return int(answer.responses[0].partition_responses[0].error_code)

    async def send_unanswered(self, value: bytes) -> None:
        """Append a batch with acks=0."""
        await self.caller.client.send(self.caller.frame(self._produce_request(value, 1, acks=0)))

    async def fetch(
        self, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1
    ) -> tuple[int, bytes]:
        """Return the error code and the batches that a fetch gets."""
        answer = await self.caller.ask(
            self._fetch_request(offset, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        )
        partition = answer.responses[0].partitions[0]
        return int(partition.error_code), bytes(partition.records or b"")

    def fetch_frame(self, offset: int, *, max_bytes: int) -> bytes:
        """Return the frame of a fetch."""
        return self.caller.frame(self._fetch_request(offset, max_bytes=max_bytes))

    async def values(self) -> list[bytes | None]:
        """Fetch everything from offset 0 on and return the values."""
        values: list[bytes | None] = []
        while True:
            error, data = await self.fetch(len(values))
            assert not error
            records = [record for batch in _split(data) for record in iterate_records(batch)]
            if not records:
                return values
            values += [record.value for record in records if record.offset >= len(values)]

    def _fetch_request(
        self, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20
    ) -> Any:
        row = {"fetch_offset": offset, "partition_max_bytes": max_bytes}
        topics = [{"topic": self.topic, "partitions": [row]}]
        return request(1, 12, max_wait=max_wait_ms, min_bytes=min_bytes, topics=topics)

    def _produce_request(self, value: bytes, rows: int, *, acks: int, **fields: int) -> Any:
        timestamp = time.time_ns() // 1_000_000
        batch = make_batch([(b"k", value)] * rows, timestamp=timestamp, **fields)
        return request_entity(9, acks, 5_000, None, [(self.topic, [(0, bytes(batch))])])


def _split(data: bytes) -> list[bytes]:
    batches = []
    while data:
        size = int.from_bytes(data[8:12], "big") + 12
        batches.append(data[:size])
        data = data[size:]
    return batches
