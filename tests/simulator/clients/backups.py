"""Backups of a running broker: a pin of all topics, whose logs are copied while others go on.

A copy has what `siltstone backup` puts into one, which itself copies real files. At the end of the
history a broker starts on each: it serves all that was acknowledged before the backup began, and
exactly the batches that were pinned, which `check_log` finds sound, as the command does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.config.errors import StartError
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME
from siltstone.storage.segment.check import check_log
from tests.simulator.clients.groups import Pause
from tests.simulator.clients.requests import answer_of, send_fetch
from tests.simulator.incarnation import ROOT, Incarnation
from tests.simulator.model.log import Stored, Wrong, read_batches
from tests.simulator.model.topics import Presence, TopicModel
from tests.simulator.wire import Client
from tests.simulator.world.disk import Disk
from tests.simulator.world.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from siltstone.broker.topics.pins import Pin
    from siltstone.storage.log.pin_links import PinnedPartition
    from siltstone.storage.topic_partition import TopicPartition
    from tests.simulator.history import Action, History
    from tests.simulator.model.log import Kept
    from tests.simulator.wire import Question

_LEASE_MS: Final = 600_000
_BETWEEN: Final = 0.002
"""How long the copy of a partition takes, in seconds."""
_OF_A_PARTITION: Final = (files.PARTITION_METADATA, files.LEADER_EPOCHS)
_SECRET: Final = (files.USERS, files.ACLS, files.QUOTAS)
_OF_ALL: Final = (files.META_PROPERTIES, FILE_NAME, *_SECRET)


class Backup(NamedTuple):
    """A copy: its files, the topics that it must have, where their logs begin, and with what."""

    number: int
    now: float
    files: dict[str, bytes]
    logs: dict[TopicPartition, tuple[int, list[Stored]]]
    topics: dict[str, TopicModel]


class Backups:
    """The backups of a history. Its steps come beside those of other parts."""

    WEIGHTS: Final = {"backup": 0}

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return nothing: a backup has all."""
        return []

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._made: list[Backup] = []

    def play(self, kind: str) -> Action:
        """Pin all topics, and copy one partition after the other."""
        broker = self._history.incarnation.broker
        topics: dict[str, TopicModel] = self._history.parts["records"].topics
        known = {name: topic for name, topic in topics.items() if _is_there(topic)}
        acknowledged = {name: [[*log.kept] for log in each.logs] for name, each in known.items()}
        lives = {name: each.topic_id for name, each in known.items()}
        names = broker.topics.topics
        logs = [log for (name, _), log in broker.topics.logs.items() if name in names]
        asked = self._history.incarnation.ask(broker.pins.create(logs, _LEASE_MS, "backup"))
        yield asked
        if asked.is_lost or isinstance(asked.answer, Exception):
            return
        pin: Pin = asked.answer
        copy: dict[str, bytes] = {}
        for each in pin.partitions:
            copy |= self._copy(each)
            pause = Pause(self._history, _BETWEEN)
            yield pause
            if pause.is_lost:
                return
        if pin not in broker.pins.all_pins():
            return  # its files may have been gone
        copy |= self._copy_others(pin)
        found = {
            each.topic_partition: (each.log_start_offset, _batches(each, copy))
            for each in pin.partitions
            if each.topic_partition.topic in topics
        }
        for name, life in lives.items():
            if not _is_there(known[name]) or known[name].topic_id != life:
                del known[name]
        for each in pin.partitions:
            name, number = each.topic_partition
            if name in known and number < len(acknowledged[name]):
                _check(acknowledged[name][number], found[each.topic_partition][1], each)
        self._history.tell(f"  backup of {len(pin.partitions)} partitions")
        now = self._history.world.now
        self._made.append(Backup(self._history.number, now, copy, found, known))
        yield self._history.incarnation.ask(broker.pins.release(pin.pin_id))

    def _copy(self, pinned: PinnedPartition) -> dict[str, bytes]:
        """Return the files of a partition by their names: pinned ones, and those of today."""
        disk, folder = self._history.world.disk, pinned.folder
        found = disk.folder(str(folder))
        names = {files.segment_file_name(each.base_offset): each.size for each in pinned.segments}
        copy = {name: found[name][:size] for name, size in names.items()}
        try:
            live = disk.folder(str(folder.parents[2] / folder.name))
        except FileNotFoundError:  # the topic was deleted meanwhile
            live = {}
        topic_id = f"version: 0\ntopic_id: {pinned.topic_id}".encode()
        copy |= {name: live[name] for name in _OF_A_PARTITION if name in live}
        copy.setdefault(files.PARTITION_METADATA, topic_id)
        return {f"{folder.name}/{name}": data for name, data in copy.items()}

    def _copy_others(self, pin: Pin) -> dict[str, bytes]:
        """Return the files of the folder itself."""
        found = self._history.world.disk.folder(f"{ROOT}/a")
        copy = {name: found[name] for name in _OF_ALL if name in found}
        starts = {each.topic_partition: each.log_start_offset for each in pin.partitions}
        dirty = {each.topic_partition: each.first_dirty_offset for each in pin.partitions}
        cleaned = {place: offset for place, offset in dirty.items() if offset}
        for name, offsets in ((files.LOG_START_OFFSETS, starts), (files.CLEANER_OFFSETS, cleaned)):
            rows = [f"{topic} {number} {offset}" for (topic, number), offset in offsets.items()]
            copy[name] = "\n".join(["0", str(len(rows)), *rows, ""]).encode()
        return copy

    def ended(self) -> None:
        """Start a broker on each copy, and read all that was pinned."""
        for each in self._made:
            try:
                self._restore(each)
            except (Wrong, StartError, OSError) as error:
                raise Wrong(f"the backup of step {each.number}: {error}") from error

    def _restore(self, backup: Backup) -> None:
        world = World(self._history.plan.seed, **self._history.plan.world)
        world.descriptors = self._history.world.descriptors  # no two files have the same
        self._history.world.bury(world)
        world.now = backup.now
        world.disk = Disk(world.before_call, world.now_ns, ROOT, numbers=world.descriptors)
        for name, data in backup.files.items():
            mode = 0o600 if name in _SECRET else 0o644
            world.disk.replace(f"{ROOT}/a/{name}", data, mode)
        broker = Incarnation(world, [*self._history.plan.settings, f"log.dirs={ROOT}/a"])
        world.disk.install()
        logs = [Path(ROOT, "a", each) for each in backup.files if each.endswith(files.LOG)]
        faults: list[str] = []
        checked = sum(1 for each in logs for _ in check_log(each, faults.append))
        if faults or checked < sum(len(each) for _, each in backup.logs.values()):
            raise Wrong(f"of {checked} batches some are damaged: {faults}")
        broker.start()
        client = Client(lambda: broker, splits=0.0)
        for place, (start, batches) in backup.logs.items():
            if place.topic not in backup.topics:
                continue  # it may have been deleted while the backup was made
            topic = backup.topics[place.topic]
            served = list(_read(broker, client, topic, place.partition, start))
            others = served[len(batches) :]  # markers that end what was open
            if served[: len(batches)] != batches or not all(each.is_control for each in others):
                raise Wrong(f"{place} has {served}, not {batches}")
        broker.kill()


def _is_answered(asked: Question) -> bool:
    return asked.answer is not None


def _is_there(topic: TopicModel) -> bool:
    return topic.presence is Presence.PRESENT


def _batches(pinned: PinnedPartition, copy: Mapping[str, bytes]) -> list[Stored]:
    """Return the batches of a copy that are not below the log's start."""
    names = [files.segment_file_name(each.base_offset) for each in pinned.segments]
    found = (each for name in names for each in read_batches(copy[f"{pinned.folder.name}/{name}"]))
    return [each for each in found if each.last >= pinned.log_start_offset]


def _check(kept: list[Kept], found: list[Stored], pinned: PinnedPartition) -> None:
    """See that a copy has all that was acknowledged, unless it begins behind that."""
    bodies = {each.base: each.body for each in found}
    for each in kept:
        if each.base >= pinned.log_start_offset and bodies.get(each.base) != each.sent.body:
            raise Wrong(f"a backup of {pinned.topic_partition} lacks what is at {each.base}")


def _read(
    broker: Incarnation, client: Client, topic: TopicModel, number: int, offset: int
) -> Iterator[Stored]:
    """Yield the batches that a broker serves from an offset on."""
    while True:
        asked = send_fetch(client, topic, number, offset)
        if not broker.run_until(partial(_is_answered, asked)):
            raise Wrong(f"no answer to a fetch of {topic.name}-{number}")
        answer = answer_of(asked.response)
        if answer.error_code:
            raise Wrong(f"a fetch of {topic.name}-{number} from {offset}: {answer.error_code}")
        batches = list(read_batches(bytes(answer.records or b"")))
        if not batches:
            return
        yield from batches
        offset = batches[-1].last + 1
