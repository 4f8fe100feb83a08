"""The assignors, which a consumer group asks for by name: they say who reads which partitions.

An assignor is a function of values. There are Kafka's own two; plug-ins cannot be added.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from siltstone.broker.groups.consumer.assignors import range_assignor, uniform
from siltstone.broker.groups.consumer.assignors.spec import Assigned, MemberSpec

Assignor: TypeAlias = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assigned]]
"""Members by id and partition counts by topic id to the partitions of every member."""

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": uniform.assign, "range": range_assignor.assign}
)
