"""FindCoordinator: this broker, for every key and in every version."""

from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from tests.support.ask import ask
from tests.support.services import HOST, PORT, ServicesOnDisk


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize("key_type", [0, 1])
async def test_every_key_is_coordinated_here(
    home: ServicesOnDisk, version: int, key_type: int
) -> None:
    """Each key is echoed; groups and transactions alike."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a", "b"))
    answer = await ask(home, 10, request, version)

    assert [
        (each.key, each.node_id, each.host, each.port, each.error_code, each.error_message)
        for each in answer.coordinators
    ] == [("a", 1, HOST, PORT, ErrorCode.none, ""), ("b", 1, HOST, PORT, ErrorCode.none, "")]


async def test_share_groups_are_refused(home: ServicesOnDisk) -> None:
    """Key type 2 has no coordinator here."""
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=("g:t:0",))
    answer = await ask(home, 10, request, 6)

    assert [(each.error_code, each.node_id) for each in answer.coordinators] == [
        (ErrorCode.invalid_request, -1)
    ]


@pytest.mark.parametrize("version", range(4))
async def test_old_versions_ask_for_one_key(home: ServicesOnDisk, version: int) -> None:
    """The answer has one coordinator, at the top."""
    kind: Any = load_request_schema(10, version)
    answer = await ask(home, 10, kind(key="a"), version)

    assert (answer.node_id, answer.host, answer.port) == (1, HOST, PORT)
    assert answer.error_code is ErrorCode.none
    assert version == 0 or answer.error_message == "NONE"


async def test_a_refusal_is_said_at_the_top_to_old_versions(home: ServicesOnDisk) -> None:
    """Nobody coordinates share groups."""
    kind: Any = load_request_schema(10, 3)
    answer = await ask(home, 10, kind(key="g:t:0", key_type=2), 3)

    assert (answer.error_code, answer.node_id) == (ErrorCode.invalid_request, -1)
    assert answer.error_message == "coordinators of type 2 are not served"
