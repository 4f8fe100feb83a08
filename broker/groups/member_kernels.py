"""Timers, and what is heard of members, compiled where it could be: import them from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.groups._member_kernels import (
        COMPILED,
        GroupTable,
        LivingGroup,
        LivingMember,
        MemberTable,
        Timer,
        Timers,
    )
else:
    _members = choose("siltstone.broker.groups._member_kernels")
    COMPILED = _members.COMPILED
    GroupTable = _members.GroupTable
    LivingGroup = _members.LivingGroup
    LivingMember = _members.LivingMember
    MemberTable = _members.MemberTable
    Timer = _members.Timer
    Timers = _members.Timers

__all__ = [
    "COMPILED",
    "GroupTable",
    "LivingGroup",
    "LivingMember",
    "MemberTable",
    "Timer",
    "Timers",
]
