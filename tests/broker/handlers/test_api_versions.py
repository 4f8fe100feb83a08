"""The trace that ApiVersions leaves: the software that a client says it is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.broker.handlers.api_versions import handle
from siltstone.broker.http.metrics.kafka_names import KAFKA_NAMES
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.ask import ask
from tests.support.metrics import make_sources, rows_of
from tests.support.services import ServicesOnDisk

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


@pytest.mark.parametrize(
    ("cluster", "node", "error"),
    [
        (None, -1, ErrorCode.none),
        ("own", 1, ErrorCode.none),
        ("other", 1, ErrorCode.rebootstrap_required),
        ("", 1, ErrorCode.rebootstrap_required),
        ("own", 2, ErrorCode.rebootstrap_required),
        (None, 1, ErrorCode.invalid_request),
        ("own", -1, ErrorCode.invalid_request),
        ("own", -5, ErrorCode.rebootstrap_required),
        (None, -5, ErrorCode.invalid_request),
    ],
)
async def test_a_client_that_means_another_broker(
    home: ServicesOnDisk, cluster: str | None, node: int, error: ErrorCode
) -> None:
    """As Apache Kafka 4.4.0 answers (KIP-1242): the client begins again, nothing else is told."""
    own = {"own": home.services.logs.cluster_id}
    meant = None if cluster is None else own.get(cluster, cluster)

    answer = await ask(home, 18, ApiVersionsRequest("ab", "1", meant, node), 5)

    assert answer.error_code == error
    assert bool(answer.api_keys) is bool(answer.supported_features) is not bool(error)
    assert (answer.finalized_features_epoch == -1) is bool(error)


def test_software_is_counted_and_bounded() -> None:
    """A client that takes another name each time makes no series without end."""
    many = [(f"client-{n}", "1", "PLAINTEXT") for n in range(1000)]
    sources = replace(make_sources({}), software=lambda: iter([*many, *many[:5], None]))

    rows = dict(rows_of(CONNECTIONS, sources))

    assert len(rows) == 101
    assert rows["client-0", "1", "PLAINTEXT"] == 2
    assert rows["other", "other", "PLAINTEXT"] == 900
