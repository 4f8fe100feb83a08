"""The input of an assignor for one member, and its result."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

Assigned: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""


class MemberSpec(NamedTuple):
    """One member: the existing topics that it subscribes to, and its last target."""

    topic_ids: frozenset[UUID]
    target: Assigned
    instance_id: str | None = None
