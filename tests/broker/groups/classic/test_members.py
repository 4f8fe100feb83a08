"""The cost of members of a classic group to each other."""

from collections import Counter
from typing import Any

from siltstone.broker.coordination.timers import Timers
from siltstone.broker.groups.classic.members import Member, Members
from siltstone.broker.groups.classic.messages import JoinRequest
from siltstone.broker.groups.member_bytes import GroupBytes, MemberBytes
from tests.support.clock import FakeClock


class _Watched(Counter[str]):
    """Must not be gone through: it has the protocols of all members."""

    def items(self) -> Any:
        """Fail."""
        raise AssertionError("all protocols were looked at")


def _member(name: str, *protocols: str) -> Member:
    request = JoinRequest(
        member_id=name,
        instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        protocol_type="consumer",
        protocols=tuple((protocol, b"") for protocol in protocols),
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
    )
    return Member(name, request, Timers(FakeClock()), lambda _: None)


def test_a_member_that_goes_is_a_matter_of_its_own_protocols() -> None:
    """A thousand may go in one turn, and each may have hundreds that nobody else has."""
    members = Members(GroupBytes(MemberBytes(lambda _: None)))
    one, two = _member("one", "range", "x"), _member("two", "range", "y")
    for member in (one, two):
        members.add(member)
    members._supported = _Watched(members._supported)
    members.remove(one)

    assert members.support((("y", b""),))
    assert not members.support((("x", b""),))
    assert len(members._supported) == 2
