"""Reading the journal back: makes groups and offsets from the records of ``__consumer_offsets``."""

from collections.abc import Iterator, Sequence
from typing import Any

from siltstone.broker.groups.consumer.all_groups import ConsumerGroups
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.share.all_groups import ShareGroups
from siltstone.broker.groups.streams.all_groups import StreamsGroups
from siltstone.protocol.coordinator import group_records, headed, streams_group_records
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages.consumer_offsets import GroupMetadataKey, OffsetCommitKey
from siltstone.protocol.records.journal import Entry, EntryKind


class Replay:
    """Applies entries in their order; creates the classic groups when a partition was read.

    Only the last record of a group counts, so that record is decoded at the end. Records of other
    types go to ``others`` and ``streams``. A record that cannot be read, or that a newer Kafka has
    written, is skipped.

    A group exists as soon as it has a record of an offset, even if the offset was aborted or
    deleted since. It exists until a record deletes the group itself, as happens when offsets
    expire.
    """

    def __init__(
        self,
        owner: GroupCoordinator,
        others: Sequence[ConsumerGroups | ShareGroups],
        streams: StreamsGroups,
    ) -> None:
        self._owner = owner
        self._others = others
        self._streams = streams
        # partition -> group id -> last value and its offset
        self._groups: dict[int, dict[str, tuple[int, bytes]]] = {}
        # partition -> groups that had a committed or pending offset and may have none now
        self._named: dict[int, set[str]] = {}

    def apply(self, partition: int, entries: list[Entry]) -> None:
        """Apply some entries of a partition."""
        offsets = self._owner.offsets
        groups = self._groups.setdefault(partition, {})
        named = self._named.setdefault(partition, set())
        key: Any
        for entry in entries:
            _, kind, key, value, producer_id, _ = entry
            if type(key) is tuple:
                if kind != EntryKind.PLAIN or (value is None and key[0] in offsets):
                    named.add(key[0])
                offsets.replay(partition, key, value, kind, producer_id)
            elif kind >= EntryKind.ABORT:
                offsets.complete(partition, producer_id, is_commit=kind == EntryKind.COMMIT)
            else:
                try:
                    self._apply_other(partition, groups, named, Entry._make(entry))
                except ProtocolError as error:
                    self._owner.journal.skip(partition, entry[0], error)

    def _apply_other(
        self, partition: int, groups: dict[str, tuple[int, bytes]], named: set[str], entry: Entry
    ) -> None:
        match group_records.read_key(entry.key):
            case OffsetCommitKey() as key:  # compiled code does not know the form of its value
                if entry.value is not None:
                    group_records.read_offset(entry.value)
                self._owner.offsets.replay(
                    partition, key, entry.value, entry.kind, entry.producer_id
                )
            case GroupMetadataKey(group_id):
                if entry.value is None:
                    groups.pop(group_id, None)
                    named.discard(group_id)
                else:
                    groups[group_id] = entry.offset, entry.value
            case _:
                of_streams = streams_group_records.decode_key(entry.key)
                if of_streams is None:
                    kind = headed.read_head(entry.key)
                    loadings = [each.loading for each in self._others]
                    fits = next((each for each in loadings if each.keys.has(kind)), loadings[0])
                    deleted = fits.apply(partition, entry)
                else:
                    deleted = self._streams.replay(partition, of_streams, entry.value)
                if deleted is not None:
                    named.discard(deleted)

    def finish(self, partition: int) -> Iterator[None]:
        """Create the groups of a partition that was read to its end, one group at each step."""
        owner = self._owner
        for group_id, (offset, value) in self._groups.pop(partition, {}).items():
            try:
                metadata = group_records.read_group(value)
            except ProtocolError as error:
                owner.journal.skip(partition, offset, error)
                continue
            group = owner.add_classic(group_id)
            group.restore(metadata)
            group.resume()
            yield
        for others in self._others:
            others.finish(partition)
        self._streams.finish(partition)
        for group_id in self._named.pop(partition, ()):
            if group_id not in owner.groups and not owner.offsets.topics(group_id):
                owner.add_classic(group_id)
                yield
