"""The requests and answers of a classic group, in any version and encoding."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages import Octets

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and metadata, the preferred one first."""

AskedProtocols: TypeAlias = tuple[tuple[str, Octets], ...]
"""The same, of a request: long metadata is a view of its frame."""

NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request; ``member_id`` is empty until the coordinator has given out an id."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: AskedProtocols
    rebalance_timeout_ms: int
    session_timeout_ms: int
    requires_known_id: bool = True
    """The member gets an id first and then joins with it (KIP-394, from version 4 on)."""
    may_skip_assignment: bool = True
    """The leader may be told that it need not assign (KIP-814, from version 9 on)."""
    user: str = ""
    """The principal that has logged in; empty without a login."""


class JoinedMember(NamedTuple):
    """The facts about a member that its leader gets."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a join; only the leader gets the list of members."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request; only the leader sends assignments, by member id."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, Octets]


class SyncResult(NamedTuple):
    """The answer to a sync."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


def own(protocols: AskedProtocols) -> Protocols:
    """Return protocols that outlive their request."""
    return tuple((name, bytes(metadata)) for name, metadata in protocols)


JoinReply: TypeAlias = Callable[[JoinResult], None]
SyncReply: TypeAlias = Callable[[SyncResult], None]
