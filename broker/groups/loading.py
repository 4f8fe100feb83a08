"""Reading back the groups whose members have epochs, before they are served."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Generic, TypeVar

from siltstone.broker.groups.epoch_group import EpochGroup
from siltstone.protocol.coordinator.group_keys import GroupKeys
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.records.journal import Entry

M = TypeVar("M", bound=EpochGroup[Any])


class Loading(Generic[M]):
    """The machines of one kind of group, as the records that were read so far describe them.

    ``metadata`` is the type of the record without which there is no group.
    """

    def __init__(
        self,
        make: Callable[[str, int], M],
        keys: GroupKeys[Any],
        decode_value: Callable[[Any, Any], Any],
        metadata: IntEnum,
    ) -> None:
        self.keys = keys
        self._make = make
        self._decode_value = decode_value
        self._metadata = metadata
        self._groups: dict[int, dict[str, M]] = {}

    def apply(self, partition: int, entry: Entry) -> str | None:
        """Apply a record, and return the id of a group that it deletes.

        Raises:
            ProtocolError: The record is of another kind, or cannot be read.
        """
        key = self.keys.decode(entry.key)
        if key is None:
            raise ProtocolError(f"a key of type {int.from_bytes(entry.key[:2])} is not known")
        value = None if entry.value is None else self._decode_value(key.type, entry.value)
        groups = self._groups.setdefault(partition, {})
        group = groups.get(key.group_id)
        if value is None and (group is None or key.type is self._metadata):
            groups.pop(key.group_id, None)
            return key.group_id if key.type is self._metadata else None
        if group is None:
            group = groups[key.group_id] = self._make(key.group_id, partition)
        group.apply(key, value)
        return None

    def take(self, partition: int) -> list[M]:
        """Return the groups of a partition that was read to its end."""
        return list(self._groups.pop(partition, {}).values())
