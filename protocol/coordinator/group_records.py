"""Records of `__consumer_offsets` that keep committed offsets and classic groups.

Kafka's OffsetCommitKey/Value and GroupMetadataKey/Value. Keys and values begin with an int16, the
type of the key and the version of the value, and go on in the classic encoding; values from
version 4 on in the compact one.

| type | key | value |
| --- | --- | --- |
| 0, 1 | group, topic, partition | `CommittedOffset` |
| 2 | group | `GroupMetadata` |

Written are key types 1 and 2 and values of version 3, which every Kafka since 2.1 reads, and of
version 1 for an offset with a time of its own to expire; read are versions 0 to 4. A committed
offset is also kept in memory as its value's bytes, since a million of them must be cheap.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812  # a class, whatever its name looks like
from typing import Final, NamedTuple

from protocol.coordinator.fields import FieldReader
from protocol.errors import ProtocolError
from protocol.group_kernels import offset_value
from protocol.primitives import CLASSIC, COMPACT

_OFFSET_KEY_TYPES: Final = frozenset({0, 1})
_OFFSET_KEY: Final = 1
_GROUP_KEY: Final = 2
_VERSION: Final = 3
_VERSION_WITH_EXPIRY: Final = 1
_NEWEST: Final = 4
NO_EXPIRY: Final = -1

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_OFFSET_HEAD_V1 = Struct(">hqh")  # version, offset, size of the metadata
_TIMES_V1 = Struct(">qq")


class OffsetKey(NamedTuple):
    """What a committed offset belongs to."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Which classic group a record is about."""

    group_id: str


class CommittedOffset(NamedTuple):
    """Where a group goes on reading a partition; times in ms, -1: no such time."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_EXPIRY


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """One member of a stable classic group; ``subscription`` is that of the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A classic group as it was when it became stable or empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    members: tuple[MemberMetadata, ...] = ()


def read_key(key: bytes) -> OffsetKey | GroupKey | None:
    """Return what a record is about; None: a type that is not of this module, or no key.

    Raises:
        ProtocolError: The bytes are no key of that type.
    """
    if len(key) < _INT16.size:
        return None
    kind: int = _INT16.unpack_from(key)[0]
    fields = FieldReader(key, CLASSIC, _INT16.size)
    if kind in _OFFSET_KEY_TYPES:
        return OffsetKey(fields.string(), fields.string(), fields.number(_INT32))
    if kind == _GROUP_KEY:
        return GroupKey(fields.string())
    return None


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group."""
    return _INT16.pack(_GROUP_KEY) + CLASSIC.put_string(group_id)


def put_offset(committed: CommittedOffset) -> bytes:
    """Return the value of a committed offset."""
    offset, leader_epoch, text, commit_timestamp, expire_timestamp = committed
    if expire_timestamp == NO_EXPIRY:
        return offset_value(offset, leader_epoch, text, commit_timestamp)
    metadata = text.encode()
    head = _OFFSET_HEAD_V1.pack(_VERSION_WITH_EXPIRY, offset, len(metadata))
    return head + metadata + _TIMES_V1.pack(commit_timestamp, expire_timestamp)


def read_offset(value: bytes, start: int = 0) -> CommittedOffset:
    """Read the value of a committed offset from ``start`` on.

    Raises:
        ProtocolError: The bytes are no such value, or one of a newer version.
    """
    try:
        version: int = _INT16.unpack_from(value, start)[0]
    except StructError:
        raise ProtocolError("the value of a committed offset is cut short") from None
    if not 0 <= version <= _NEWEST:
        raise ProtocolError(f"a committed offset of version {version} is not known")
    fields = FieldReader(value, COMPACT if version >= _NEWEST else CLASSIC, start + _INT16.size)
    return CommittedOffset(
        offset=fields.number(_INT64),
        leader_epoch=fields.number(_INT32) if version >= _VERSION else -1,
        metadata=fields.string(),
        commit_timestamp=fields.number(_INT64),
        expire_timestamp=fields.number(_INT64) if version == _VERSION_WITH_EXPIRY else NO_EXPIRY,
    )


def put_group(group: GroupMetadata) -> bytes:
    """Return the value of a classic group."""
    pieces = [
        _INT16.pack(_VERSION),
        CLASSIC.put_string(group.protocol_type),
        _INT32.pack(group.generation),
        CLASSIC.put_string(group.protocol),
        CLASSIC.put_string(group.leader),
        _INT64.pack(group.state_timestamp),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        pieces += [
            CLASSIC.put_string(member.member_id),
            CLASSIC.put_string(member.group_instance_id),
            CLASSIC.put_string(member.client_id),
            CLASSIC.put_string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        ]
    return b"".join(pieces)


def read_group(value: bytes) -> GroupMetadata:
    """Read the value of a classic group.

    Raises:
        ProtocolError: The bytes are no such value, or one of a newer version.
    """
    fields = FieldReader(value, CLASSIC)
    version = fields.number(_INT16)
    if not 0 <= version <= _NEWEST:
        raise ProtocolError(f"a group of version {version} is not known")
    if version >= _NEWEST:
        fields = FieldReader(value, COMPACT, _INT16.size)

    def member(of: FieldReader) -> MemberMetadata:
        member_id = of.string()
        instance_id = of.nullable_string() if version >= 3 else None
        client_id, client_host = of.string(), of.string()
        rebalance_timeout_ms = of.number(_INT32) if version >= 1 else -1
        session_timeout_ms = of.number(_INT32)
        read = MemberMetadata(
            member_id=member_id,
            group_instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            # Version 0 knew one time-out for both.
            rebalance_timeout_ms=session_timeout_ms if version == 0 else rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            subscription=of.data(),
            assignment=of.data(),
        )
        if version >= _NEWEST:
            of.tags()
        return read

    return GroupMetadata(
        protocol_type=fields.string(),
        generation=fields.epoch(),
        protocol=fields.nullable_string(),
        leader=fields.nullable_string(),
        state_timestamp=fields.number(_INT64) if version >= 2 else -1,
        members=tuple(fields.array(member)),
    )
