"""Administrators of two log directories: partitions move from one to the other.

A partition is served from one directory at any time, and a move that was acknowledged ends where it
was asked to, also across a stop or a kill. That no record is lost is judged by `Records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.requests import STORAGE, UNKNOWN_TOPIC, share
from tests.simulator.incarnation import ROOT
from tests.simulator.model.log import Wrong
from tests.simulator.model.settings import SettingsModel
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.history import Action, History
    from tests.simulator.model.topics import TopicModel

_MOVE, _DESCRIBE = 34, 35
_DIRECTORIES: Final = (f"{ROOT}/a", f"{ROOT}/b")
_LOOK_SECONDS: Final = 0.5
_MOVE_LOOKS: Final = 10
"""How often is looked at moves until they must have ended."""
_OTHERS: Final = ("", "", "dates", "figs", "__consumer_offsets")
"""Names of topics of other parts; without one it is one of `Records`."""


class Moves:
    """The moves of a history; ``_wanted`` has where partitions must be when none is under way."""

    WEIGHTS: Final = {"move": 1.5, "directories": 0.3}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return whether there are two directories: most histories have one."""
        return rng.choice(({}, {}, {"directories": 2}))

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return the directories."""
        return [f"log.dirs={','.join(_DIRECTORIES)}"] if drawn else []

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which partition moves, as shares of 1, and where to."""
        where = [share(rng), share(rng)]
        return [*where, rng.choice(_DIRECTORIES), rng.choice(_OTHERS)] if kind == "move" else []

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._is_there = bool(drawn)
        self._wanted: dict[tuple[bytes, int], str] = {}
        self._changes = SettingsModel({}, 0)
        self._hits = 0

    def play(self, kind: str, *rest: Any) -> Action:
        """Play a step."""
        if kind == "directories":
            return self._describe()
        return self._move_other(*rest[2:]) if rest[-1] else self._move(*rest[:3])

    def restarted(self, way: str) -> None:
        """Note that a power failure may have taken the copy that is under way."""
        self._changes.restarted()
        if way == "power":
            self._wanted.clear()

    def _topics(self) -> list[TopicModel]:
        return list(self._history.parts["records"].topics.values())

    def _move(self, which: float, partition: float, path: str) -> Action:
        topics = self._topics()
        topic = topics[int(which * len(topics))]
        number = int(partition * topic.partitions)
        place = topic.topic_id, number
        before = topic.presence
        change = self._changes.begin([str(place)])
        self._wanted.pop(place, None)
        asked = self._history.client().send(_MOVE, ([(path, [(topic.name, [number])])],))
        yield asked
        if asked.is_lost:
            return
        is_alone = self._changes.end(change)
        error = asked.answer.results[0].partitions[0].error_code
        self._history.tell(f"  {topic.name}-{number} to {path}: {error}")
        is_certain = before is topic.presence is Presence.PRESENT and topic.topic_id == place[0]
        if error == UNKNOWN_TOPIC and not is_certain:
            return
        if error and (error != STORAGE or self._history.is_sound):
            raise Wrong(f"{topic.name}-{number} does not move to {path}: error {error}")
        if not error and is_alone and self._history.is_sound:
            self._wanted[place] = path

    def _move_other(self, path: str, name: str) -> Action:
        """Move the first partition of a topic that may exist."""
        asked = self._history.client().send(_MOVE, ([(path, [(name, [0])])],))
        yield asked
        if asked.is_lost:
            return
        error = asked.answer.results[0].partitions[0].error_code
        self._history.tell(f"  {name}-0 to {path}: {error}")
        if error not in {0, UNKNOWN_TOPIC} and self._history.is_sound:
            raise Wrong(f"{name}-0 does not move to {path}: error {error}")

    def _describe(self) -> Action:
        """See where all partitions are: none is missing or twice, with one copy at most."""
        topics = {each.name: each for each in self._topics()}
        before = {each.topic_id for each in topics.values() if each.presence is Presence.PRESENT}
        asked = self._history.client().send(_DESCRIBE, (None,))
        yield asked
        if asked.is_lost:
            return
        found: dict[tuple[str, int, bool], list[str]] = {}
        for directory in asked.answer.results:
            for told in directory.topics:
                for row in told.partitions:
                    place = told.name, row.partition_index, row.is_future_key
                    found.setdefault(place, []).append(directory.log_dir)
        if twice := {place: dirs for place, dirs in found.items() if len(dirs) > 1}:
            raise Wrong(f"partitions are in several directories: {twice}")
        for topic in topics.values():
            if topic.topic_id in before and topic.presence is Presence.PRESENT:
                for number in range(len(topic.logs)):
                    self._check(topic, number, found)

    def _check(
        self, topic: TopicModel, number: int, found: dict[tuple[str, int, bool], list[str]]
    ) -> None:
        path = found.get((topic.name, number, False))
        copy = found.get((topic.name, number, True))
        is_sure = self._history.is_sound and self._history.step[0] == "judge"
        if path is None and is_sure:
            raise Wrong(f"{topic.name}-{number} is in no directory")
        is_alone = self._history.step[0] != "burst"  # the answer is not of one moment
        if copy is not None and copy == path and is_alone:
            raise Wrong(f"{topic.name}-{number} moves to where it is: {path}")
        wanted = self._wanted.get((topic.topic_id, number))
        if is_sure and (copy is not None or wanted not in {None, *(path or ())}):
            raise Wrong(f"{topic.name}-{number} is in {path} with a copy in {copy}, not {wanted}")

    # The judge.

    def judge(self) -> None:
        """Wait until moves must have ended, and see where all partitions are."""
        if not self._is_there:
            return
        hits = self._history.hits
        if hits != self._hits:  # the disk may have ended moves that had begun
            self._wanted.clear()
            self._hits = hits
        moves = self._history.incarnation.broker.logs.futures
        for _ in range(_MOVE_LOOKS):
            self._history.let_pass(_LOOK_SECONDS)
            if not moves.copies:
                break
        self._history.run([self._describe()])
