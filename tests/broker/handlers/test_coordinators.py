"""FindCoordinator: this broker, for every key and in every version."""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from tests.support.ask import ask
from tests.support.rooms import HOST, PORT, RoomsOnDisk


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize("key_type", [0, 1])
async def test_every_key_is_coordinated_here(
    home: RoomsOnDisk, version: int, key_type: int
) -> None:
    """Each key is echoed; groups and transactions alike."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a", "b"))
    answer = await ask(home, 10, request, version)

    assert [
        (each.key, each.node_id, each.host, each.port, each.error_code)
        for each in answer.coordinators
    ] == [("a", 1, HOST, PORT, ErrorCode.none), ("b", 1, HOST, PORT, ErrorCode.none)]


async def test_share_groups_are_refused(home: RoomsOnDisk) -> None:
    """Key type 2 has no coordinator here."""
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=("g:t:0",))
    answer = await ask(home, 10, request, 6)

    assert [(each.error_code, each.node_id) for each in answer.coordinators] == [
        (ErrorCode.invalid_request, -1)
    ]
