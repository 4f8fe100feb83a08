"""Keys of the records of groups whose members have epochs: consumer groups and share groups."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from siltstone.protocol.coordinator import headed
from siltstone.protocol.messages import Message
from siltstone.protocol.parts import Buffer

T = TypeVar("T", bound=IntEnum)


class GroupKey(NamedTuple, Generic[T]):
    """The subject of a record; ``name`` is the member id or expression, if the type has one."""

    type: T
    group_id: str
    name: str = ""


class GroupKeys(Generic[T]):
    """Writes and reads the keys of some types."""

    def __init__(self, types: type[T], tables: Mapping[T, Message]) -> None:
        self._types = types
        self._tables = tables

    def has(self, kind: int) -> bool:
        """Tell whether a type is one of these."""
        return kind in self._tables

    def encode(self, key: GroupKey[T]) -> bytes:
        """Return the bytes of a key."""
        message = self._tables[key.type]
        has_name = len(message.struct.__annotations__) > 1
        return headed.write_key(message, (key.group_id, key.name) if has_name else (key.group_id,))

    def decode(self, key: Buffer) -> GroupKey[T] | None:
        """Return the subject of a key; None if the key has another type.

        Raises:
            ProtocolError: the key is cut short, or a name is too long.
        """
        try:
            kind = self._types(headed.read_head(key))
        except ValueError:
            return None
        return GroupKey(kind, *headed.read_body(self._tables[kind], 0, key))
