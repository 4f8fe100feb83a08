"""The interface of stock clients; each client has an adapter."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from tests.support.messages import Message, Stored

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_BATCH = 2_000
SMALL_FETCH = 3_000


class Client(Protocol):
    """One client library at one broker. Every call opens and closes its own connections."""

    name: str

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: Codec = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        """Write to partition 0 in batches of about 2 kB; return the acknowledged offsets."""

    def read(self, topic: str, start: int, count: int) -> list[Stored]:
        """Read `count` records of partition 0 from an offset, by fetches of a few kB."""

    def read_from_time(self, topic: str, timestamp: int, count: int) -> list[Stored]:
        """Look up a timestamp's offset and read from there; return nothing without one."""

    def bounds(self, topic: str) -> tuple[int, int]:
        """Return the earliest and the end offset of partition 0."""

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic."""

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions that have a leader."""

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to `total` partitions."""

    def topics(self) -> set[str]:
        """Return the names of all topics."""

    def delete(self, topic: str) -> None:
        """Delete a topic."""

    def configs(self, topic: str) -> dict[str, str]:
        """Return every setting of a topic as DescribeConfigs shows it."""

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set settings of a topic."""

    def delete_records(self, topic: str, before: int) -> int:
        """Delete the records of partition 0 before an offset; return the new first offset."""
