"""Reading the journal back: records of ``__consumer_offsets`` become groups and offsets again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.groups.offsets import store
from protocol.coordinator.group_records import GroupKey, OffsetKey, read_group, read_key
from protocol.errors import ProtocolError
from protocol.records.journal import EntryKind

if TYPE_CHECKING:
    from broker.groups.coordinator import GroupCoordinator
    from protocol.records.journal import Entry

log = logging.getLogger(__name__)


class Replay:
    """Takes entries in their order, and makes classic groups when a partition was read.

    Only the last record of a group counts, so it is read at the end. Records of other types go to
    ``others``; what those do not know is skipped, since a newer Kafka may have written it.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self.others = coordinator.consumer
        self._coordinator = coordinator
        self._groups: dict[int, dict[str, bytes]] = {}  # partition -> group id -> last value

    def apply(self, partition: int, entries: list[Entry]) -> None:
        """Take some entries of a partition."""
        offsets = self._coordinator.offsets
        groups = self._groups.setdefault(partition, {})
        for entry in entries:
            if entry.kind >= EntryKind.ABORT:
                is_commit = entry.kind == EntryKind.COMMIT
                offsets.complete(partition, entry.producer_id, is_commit=is_commit)
                continue
            try:
                key = read_key(entry.key)
            except ProtocolError as error:
                log.warning("record skipped offset=%d reason=%s", entry.offset, error)
                continue
            match key:
                case OffsetKey():
                    stored = None if entry.value is None else store(entry.offset, entry.value)
                    offsets.replay(partition, key, stored, entry.kind, entry.producer_id)
                case GroupKey(group_id):
                    if entry.value is None:
                        groups.pop(group_id, None)
                    else:
                        groups[group_id] = entry.value
                case _:
                    self.others.replay(partition, entry)

    def finish(self, partition: int) -> None:
        """Make the classic groups of a partition that was read to its end."""
        coordinator = self._coordinator
        for group_id, value in self._groups.pop(partition, {}).items():
            try:
                metadata = read_group(value)
            except ProtocolError as error:
                log.warning("group skipped group=%s reason=%s", group_id, error)
                continue
            group = coordinator.add_classic(group_id)
            group.restore(metadata)
            group.resume()
        self.others.finish(partition)
