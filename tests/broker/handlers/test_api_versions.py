"""The trace that ApiVersions leaves: the software that a client says it is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.broker.handlers.api_versions import handle
from siltstone.broker.http.metrics.kafka_names import KAFKA_NAMES
from siltstone.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.metrics import make_sources, rows_of

[CONNECTIONS] = [each for each in KAFKA_NAMES if each.name.endswith("_connections")]


@pytest.mark.parametrize(
    ("version", "name", "noted"),
    [(2, "", [""]), (3, "librdkafka", ["librdkafka 2.1.0"]), (4, "no name!", [])],
)
def test_a_connection_keeps_what_its_client_says(version: int, name: str, noted: list[str]) -> None:
    """From version 3 on, and only what is a name."""
    kept: list[str] = []
    connection = SimpleNamespace(
        note_software=lambda name, version: kept.append(f"{name} {version}".strip()),
        note_refused_handshake=lambda _reason: None,
    )
    features = SimpleNamespace(epoch=0, level=lambda _name: 0)
    context: Any = SimpleNamespace(
        version=version,
        connection=connection,
        services=SimpleNamespace(features=features, settings=SimpleNamespace(client_metrics={})),
    )

    handle(context, ApiVersionsRequest(name, "2.1.0" if name else ""))

    assert kept == noted


def test_software_is_counted_and_bounded() -> None:
    """A client that takes another name each time makes no series without end."""
    many = [(f"client-{n}", "1", "PLAINTEXT") for n in range(1000)]
    sources = replace(make_sources({}), software=lambda: iter([*many, *many[:5], None]))

    rows = dict(rows_of(CONNECTIONS, sources))

    assert len(rows) == 101
    assert rows["client-0", "1", "PLAINTEXT"] == 2
    assert rows["other", "other", "PLAINTEXT"] == 900
