"""The requests that several kinds of clients send, with the facts that they all need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from tests.simulator.wire import Client, Question

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19
DESCRIBE_CONFIGS, ALTER_CONFIGS = 32, 44
OUT_OF_RANGE, UNKNOWN_TOPIC, EXISTS, STORAGE, UNKNOWN_ID = 1, 3, 36, 56, 100
TOO_LARGE: Final = (10, 18)
"""Larger than a message may be, or than a segment."""
EARLIEST, LATEST = -2, -1
MOST_BYTES: Final = 200_000
"""A larger range of a file is sent by sender threads, which wait on real sockets."""
TOPIC: Final = 2
"""The kind of a resource that has settings."""
SET, DELETE = 0, 1
JUDGES_SPLIT: Final = 0.03
"""How often a frame of a judge arrives in two pieces: what is judged is the answer."""


class Named(Protocol):
    """A topic, as a request names it."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def topic_id(self) -> bytes:
        """The id."""


def share(rng: Random) -> float:
    """Draw a share of 1, which JSON writes shortly."""
    return int(rng.random() * 1e6) / 1e6


def send_batch(  # a request's parameters
    client: Client,
    topic: Named,
    partition: int,
    batch: bytes | bytearray,
    version: int = 12,
    *,
    acks: int = -1,
    transactional_id: str | None = None,
) -> Question:
    """Produce one batch."""
    data = [(topic.name, topic.topic_id, [(partition, batch)])]
    row = (transactional_id, acks, 30_000, data)
    return client.send(PRODUCE, row, version, is_answered=acks != 0)


def send_fetch(  # a request's parameters
    client: Client,
    topic: Named,
    partition: int,
    offset: int,
    size: int = MOST_BYTES,
    version: int = 12,
    *,
    isolation: int = 0,
) -> Question:
    """Fetch from an offset."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size}
    topics = [(topic.name, topic.topic_id, [wanted])]
    return client.send(FETCH, {"isolation_level": isolation, "topics": topics}, version)


def send_lookup(client: Client, topic: Named, partition: int, timestamp: int) -> Question:
    """Ask for the first record that is not older, or for what a negative number stands for."""
    wanted = {"partition_index": partition, "timestamp": timestamp}
    row = (-1, 0, [(topic.name, [wanted])])
    return client.send(LIST_OFFSETS, row, 9 if timestamp < EARLIEST else 7)


def send_alter(
    client: Client, kind: int, name: str, rows: Sequence[Sequence[Any]], *, is_trial: bool = False
) -> Question:
    """Change settings of a topic or another resource: key, `SET` or `DELETE`, value."""
    return client.send(ALTER_CONFIGS, ([(kind, name, list(map(tuple, rows)))], is_trial))


def creation(name: str, partitions: int, settings: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the request that creates a topic."""
    return [(name, partitions, 1, (), list(settings.items()))], 30_000


def answer_of(response: Any) -> Any:
    """Return what the response to a fetch has for its one partition, None if it has none."""
    return response.responses[0].partitions[0] if response.responses else None
