"""A split over the network: what the broker answers besides records."""

from types import SimpleNamespace
from typing import Any, Self

import pytest

from siltstone.pipeline.client.cluster import Leader
from siltstone.pipeline.errors import SourceUnavailable
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading import fetch_scan
from siltstone.pipeline.reading.fetch_scan import FetchScan
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.protocol.errors import ErrorCode
from siltstone.storage.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Refusing:
    """A cluster of one broker, which answers every Fetch by an error code."""

    def __init__(self, code: int) -> None:
        self._code = code

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def leaders(self, _: list[str]) -> dict[TopicPartition, Leader]:
        """Return the leader of the one partition."""
        return {ORDERS: Leader(0, "")}

    def wire(self, _: int) -> Self:
        """Return the connection."""
        return self

    def send(self, *_: object) -> None:
        """Take a request."""

    def take(self, _: object) -> Any:
        """Return the answer."""
        partition = SimpleNamespace(error_code=self._code)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[partition])])


@pytest.mark.parametrize(
    ("code", "name"),
    [(ErrorCode.topic_authorization_failed, "TOPIC_AUTHORIZATION_FAILED"), (9999, "error 9999")],
)
def test_a_refusal_is_told_by_its_name(
    monkeypatch: pytest.MonkeyPatch, code: int, name: str
) -> None:
    """Also by a broker newer than this source, whose code has no name yet."""
    monkeypatch.setattr(fetch_scan, "Cluster", lambda *_: Refusing(code))
    split = Split(transport="fetch", topic="orders", partition=0, start_offset=0, end_offset=1)

    with pytest.raises(SourceUnavailable, match=f"does not let orders-0 be read: {name}$"):
        list(FetchScan(split, ("offset",), Scanned()).record_batches())
