"""Heartbeat and LeaveGroup: members that stay in a group and members that do not."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from siltstone.broker.groups.group import GroupState
from tests.support import group_requests as requests
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk, groups_on_disk
from tests.support.stable_group import (
    SESSION_MS,
    add_stable_group,
    as_it_is,
    group_of,
    in_state,
    loading,
)

HEARTBEAT, LEAVE = 12, 13
E = ErrorCode


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """The stable group "g" of "m", whose instance id is "i"."""
    async with groups_on_disk(tmp_path / "root") as services:
        add_stable_group(services)
        yield services


async def test_a_heartbeat_keeps_a_member(home: ServicesOnDisk) -> None:
    """It is answered without an error, and the session begins again."""
    for instance_id in (None, "i", None):
        home.clock.advance(SESSION_MS - 1)
        answer = await ask(home, HEARTBEAT, requests.beat("g", "m", 3, instance_id))
        assert answer.error_code is E.none
        home.services.groups().timers.run_due()
    assert "m" in group_of(home).members.by_id
    home.clock.advance(SESSION_MS)
    home.services.groups().timers.run_due()
    assert "m" not in group_of(home).members.by_id


@pytest.mark.parametrize("version", range(5))
async def test_every_version_keeps_a_member(home: ServicesOnDisk, version: int) -> None:
    """Up to version 2 there is no instance id."""
    kind: Any = load_request_schema(HEARTBEAT, version)
    beat = kind(group_id="g", generation_id=3, member_id="m")

    assert (await ask(home, HEARTBEAT, beat, version)).error_code is E.none


@pytest.mark.parametrize(
    ("beat", "prepare", "code"),
    [
        (requests.beat("g", "m", 2), as_it_is, E.illegal_generation),
        (requests.beat("g", "n", 3), as_it_is, E.unknown_member_id),
        (requests.beat("g", "n", 3, "i"), as_it_is, E.fenced_instance_id),
        (requests.beat("no", "m", 3), as_it_is, E.unknown_member_id),
        (requests.beat("", "m", 3), as_it_is, E.invalid_group_id),
        (requests.beat("g", "m", 3), in_state(GroupState.PREPARING), E.rebalance_in_progress),
        (requests.beat("g", "m", 3), in_state(GroupState.DEAD), E.coordinator_not_available),
        (requests.beat("g", "m", 3), loading, E.none),
    ],
)
async def test_what_a_heartbeat_is_told(
    home: ServicesOnDisk, beat: Any, prepare: Callable[[ServicesOnDisk], None], code: ErrorCode
) -> None:
    """While its group is read it is told nothing, or it would join again without need."""
    prepare(home)

    assert (await ask(home, HEARTBEAT, beat)).error_code is code


@pytest.mark.parametrize("version", range(3))
async def test_one_member_leaves_by_old_versions(home: ServicesOnDisk, version: int) -> None:
    """The outcome is said at the top."""
    kind: Any = load_request_schema(LEAVE, version)

    for member_id, code in (("nobody", E.unknown_member_id), ("m", E.none)):
        answer = await ask(home, LEAVE, kind(group_id="g", member_id=member_id), version)
        assert answer.error_code is code
    assert not group_of(home).members.by_id


@pytest.mark.parametrize("version", range(3, 6))
async def test_many_members_leave_by_new_versions(home: ServicesOnDisk, version: int) -> None:
    """The outcome of each is said beside it, by member id or by instance id alone."""
    members = [{"member_id": "nobody"}, {"group_instance_id": "i"}]
    wanted = request(LEAVE, version, group_id="g", members=members)

    answer = await ask(home, LEAVE, wanted, version)

    assert answer.error_code is E.none
    assert [
        (each.member_id, each.group_instance_id, each.error_code) for each in answer.members
    ] == [("nobody", None, E.unknown_member_id), ("", "i", E.none)]
    assert not group_of(home).members.by_id
