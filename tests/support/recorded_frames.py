"""Frames of five client libraries and Apache Kafka's answers, from `tests/data/frames`."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.broker.api import BY_KEY
from tests.support.newer_than_kio import versions_in_kio

CLIENTS: Final = ("java", "librdkafka", "kafka-python", "aiokafka", "franz-go")
_FRAMES: Final = Path(__file__).parents[1] / "data" / "frames"


class Exchange(NamedTuple):
    """A request and its answer, whole."""

    client: str
    key: int
    version: int
    request: bytes
    answer: bytes


def exchanges_of(client: str) -> Iterator[Exchange]:
    """Yield the recorded requests of a client, in the versions that are served here."""
    for line in lzma.decompress((_FRAMES / f"{client}.jsonl.xz").read_bytes()).splitlines():
        row = json.loads(line)
        request = bytes.fromhex(row["request"])
        key, version = (int.from_bytes(request[at : at + 2], "big") for at in (4, 6))
        if version in versions_in_kio(BY_KEY[key]):  # otherwise the answer has another version
            yield Exchange(client, key, version, request, bytes.fromhex(row["answer"]))


def body_of(request: bytes, *, is_flexible: bool) -> int:
    """Return where the body begins: after the client id and an empty set of tagged fields."""
    end = 14 + max(0, int.from_bytes(request[12:14], "big", signed=True))
    assert not is_flexible or request[end] == 0
    return end + is_flexible
