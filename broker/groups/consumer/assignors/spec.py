"""What an assignor is told of a member, and what it answers."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

Assigned: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""


class MemberSpec(NamedTuple):
    """One member: the existing topics that it subscribes to, and what it was to have so far."""

    topic_ids: frozenset[UUID]
    target: Assigned
    instance_id: str | None = None
