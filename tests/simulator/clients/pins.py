"""Readers of segment files: they pin a topic, as a backup does, and read what is pinned.

A pin has all that was acknowledged when it was asked for, and does not change up to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.storage.log.pin_links import PinnedPartition
from tests.simulator.clients.requests import share
from tests.simulator.incarnation import ROOT
from tests.simulator.model.log import Wrong, read_batches
from tests.simulator.model.topics import Presence, TopicModel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from siltstone.broker.topics.pins import Pin, PinRoom
    from tests.simulator.history import Action, History
    from tests.simulator.model.log import Kept

_COMPACTED: Final = ("figs", "dates")


class Pins:
    """The pins of a history: each with the bytes that it had at first.

    Its steps come beside those of other parts, by draws of their own.
    """

    WEIGHTS: Final = {"pin": 0, "release": 0}

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which topic or pin, as a share of 1, and a lease."""
        return [share(rng), rng.choice((1_000, 60_000, 600_000))]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._pins: dict[str, tuple[Pin, list[bytes]]] = {}

    @property
    def _room(self) -> PinRoom:
        return self._history.incarnation.broker.pins

    def play(self, kind: str, which: float, lease_ms: int) -> Action:
        """Play a step."""
        return self._release(which) if kind == "release" else self._pin(which, lease_ms)

    def restarted(self, way: str) -> None:
        """Note that no pin survives a start."""
        self._pins.clear()
        if self._has_files("/.pins/"):
            raise Wrong(f"a start after {way} leaves pins")

    def _has_files(self, what: str) -> bool:
        return any(what in f"/{path}" for path, _, _ in self._history.world.disk.rooms(ROOT))

    def _pin(self, which: float, lease_ms: int) -> Action:
        topics: dict[str, TopicModel] = self._history.parts["records"].topics
        names = [*topics, *_COMPACTED]
        name = names[int(which * len(names))]
        topic = topics.get(name)
        there = self._history.incarnation.broker.logs.logs
        logs = [log for place, log in there.items() if place.topic == name]
        if not logs or (topic is not None and topic.presence is not Presence.PRESENT):
            return
        topic_id = topic and topic.topic_id
        acknowledged = [[*log.kept] for log in topic.logs] if topic else []
        asked = self._history.incarnation.ask(self._room.create(logs, lease_ms, "simulator"))
        yield asked
        if asked.is_lost:
            return
        is_there = topic is None or (
            topic.presence is Presence.PRESENT and topic.topic_id == topic_id
        )
        if isinstance(asked.answer, Exception):
            self._history.tell(f"  no pin of {name}: {asked.answer}")
            if is_there and self._history.is_sound:
                raise Wrong(f"{name} cannot be pinned: {asked.answer}")
            return
        pin: Pin = asked.answer
        self._history.tell(f"  pin {pin.pin_id} of {name}: {pin.size} bytes")
        if pin.pin_id not in self._alive():
            return
        copies = [self._read(each) for each in pin.partitions]
        for each, copy in zip(pin.partitions, copies, strict=True):
            number = each.topic_partition.partition
            if is_there and number < len(acknowledged):
                _check_copy(each, copy, acknowledged[number])
        self._pins[pin.pin_id] = pin, copies

    def _alive(self) -> list[str]:
        return [each.pin_id for each in self._room.all_pins()]

    def _read(self, partition: PinnedPartition) -> bytes:
        """Return the batches that a pin has of a partition."""
        found = self._history.world.disk.folder(str(partition.folder))
        return b"".join(
            found[f"{each.base_offset:020d}.log"][: each.size] for each in partition.segments
        )

    def _release(self, which: float) -> Action:
        if not self._pins:
            return
        pin_id = list(self._pins)[int(which * len(self._pins))]
        pin, _ = self._pins.pop(pin_id)
        was_alive = pin_id in self._alive()
        asked = self._history.incarnation.ask(self._room.release(pin_id))
        yield asked
        if asked.is_lost or not self._history.is_sound:
            return
        if isinstance(asked.answer, Exception):  # its lease may have run out a moment ago
            if was_alive and self._room.seconds_left(pin):
                raise Wrong(f"pin {pin_id} cannot be released: {asked.answer}")
        elif self._has_files(f"/.pins/{pin_id}/"):
            raise Wrong(f"pin {pin_id} is released, and its files stay")

    # The judge.

    def judge(self) -> None:
        """See that pins have what they had at first."""
        alive = self._alive() if self._pins else []
        self._pins = {pin_id: each for pin_id, each in self._pins.items() if pin_id in alive}
        for pin_id, (pin, before) in self._pins.items():
            if [self._read(each) for each in pin.partitions] != before:
                raise Wrong(f"pin {pin_id} has changed")


def _check_copy(partition: PinnedPartition, data: bytes, acknowledged: Sequence[Kept]) -> None:
    """Compare what a pin has with what was acknowledged before."""
    found = {each.base: each.body for each in read_batches(data)}
    for each in acknowledged:
        if each.base >= partition.log_start_offset and found.get(each.base) != each.sent.body:
            raise Wrong(f"a pin of {partition.topic_partition} lacks what is at {each.base}")
