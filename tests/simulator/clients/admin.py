"""Administrators: settings of topics are changed and told, topics get more partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.requests import (
    DELETE,
    DESCRIBE_CONFIGS,
    METADATA,
    SET,
    STORAGE,
    TOPIC,
    send_alter,
    share,
)
from tests.simulator.model.log import LogModel, Wrong
from tests.simulator.model.settings import Changes, SettingsModel
from tests.simulator.model.topics import Presence, TopicModel

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.history import Action, History
    from tests.simulator.wire import Client

_GROW: Final = 37
_BAD_COUNT: Final = 37
_REFUSED: Final = {40, 42, 44}
_FLUSH: Final = "flush.messages"
_GOOD: Final = (
    ("segment.bytes", ("300", "2000", "1048576")),
    ("index.interval.bytes", ("50", "4096")),
    ("max.message.bytes", ("200", "1048588")),
    ("file.delete.delay.ms", ("0", "1000")),
    ("segment.ms", ("1000", "60000")),
    ("cleanup.policy", ("delete", "")),
    ("retention.ms", ("-1", "864000000")),
    (_FLUSH, ("1", "3")),
)
_BAD: Final = (
    ("segment.bytes", "many"),
    ("segment.bytes", "2"),
    ("retention.ms", "-2"),
    ("cleanup.policy", "shred"),
    ("no.such.setting", "1"),
)
_MOST_PARTITIONS: Final = 4
_COUNT: Final = "partitions"


class Admin:
    """The administrators of a history; their topics are those of `Records`."""

    WEIGHTS: Final = {"alter": 2, "describe": 1, "grow": 0.3}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return whether there are administrators: many histories have none."""
        return rng.choice(({}, {"is_busy": True}))

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which topic, and what is changed."""
        which = share(rng)
        if kind == "describe":
            return [which, rng.choice((1, 2, 3, 4))]
        if kind == "grow":
            return [which, rng.choice((-1, 0, 1, 1, 1, 2)), rng.random() < 0.1]
        changes: dict[str, list[Any]] = {}
        for _ in range(rng.choice((1, 1, 2, 3))):
            key, values = rng.choice(_GOOD)
            changes[key] = [key, *rng.choice(([SET, rng.choice(values)], [DELETE, None]))]
        if rng.random() < 0.2:
            key, value = rng.choice(_BAD)
            changes[key] = [key, SET, value]
        return [which, list(changes.values()), rng.random() < 0.1]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._is_busy = bool(drawn)
        self._client = history.client()
        self._models: dict[str, tuple[bytes, SettingsModel]] = {}
        self._has_started = False

    @property
    def _topics(self) -> list[TopicModel]:
        return list(self._history.parts["records"].topics.values())

    def play(self, kind: str, which: float, *rest: Any) -> Action:
        """Play a step."""
        topics = self._topics
        topic = topics[int(which * len(topics))]
        client = self._history.beside(self._client)
        if kind == "alter":
            return self._alter(topic, client, *rest)
        if kind == "grow":
            return self._grow(topic, client, *rest)
        return self._describe(topic, client, *rest)

    def restarted(self, way: str) -> None:
        """Note that nothing is on its way any more."""
        self._has_started = True
        for _, model in self._models.values():
            model.restarted()

    def settled(self) -> None:
        """Note that a growth that was refused does not come any more."""
        self._has_started = False

    def _model(self, topic: TopicModel) -> SettingsModel | None:
        """Return the settings of the present life, None while that is not sure."""
        if topic.presence is not Presence.PRESENT:
            return None
        topic_id, model = self._models.get(topic.name, (b"", None))
        if model is None or topic_id != topic.topic_id:
            model = SettingsModel(topic.settings, topic.partitions)
            model.unsure({**topic.unsure})
            model.unsure(dict.fromkeys(topic.unsure))
            self._models[topic.name] = topic.topic_id, model
        return model

    # Steps.

    def _alter(
        self, topic: TopicModel, client: Client, rows: list[list[Any]], is_trial: bool
    ) -> Action:
        model = self._model(topic)
        in_burst = self._history.step[0] == "burst"
        if model is None or (in_burst and any(each[0] == _FLUSH for each in rows)):
            return  # whether an acknowledgement beside it waits for an fsync is not known
        changes: Changes = {key: value for key, _, value in rows}
        is_bad = any((key, value) in _BAD for key, value in changes.items())
        before, change = model.possible, model.begin(changes)
        if not is_trial:
            model.unsure(changes)
            if not is_bad:
                self._adopt(topic, model)
        asked = send_alter(client, TOPIC, topic.name, rows, is_trial=is_trial)
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer.responses[0]
        self._history.tell(f"  alter {topic.name}: {answer.error_code}")
        if self._model(topic) is not model:
            self._crossed(topic, {} if is_trial else changes)
            return
        if answer.error_code not in {0, *_REFUSED}:
            self._check_failure("alter", topic, answer)
            return
        if is_bad != (answer.error_code in _REFUSED):
            raise Wrong(
                f"alter {topic.name} to {changes}: {answer.error_code} {answer.error_message}"
            )
        if is_bad or is_trial:
            model.refused(change, before)
        else:
            model.acknowledged(change, changes)
        self._adopt(topic, model)

    def _check_failure(self, what: str, topic: TopicModel, answer: Any) -> None:
        if answer.error_code != STORAGE or self._history.is_sound:
            raise Wrong(f"{what} {topic.name}: {answer.error_code} {answer.error_message}")

    def _crossed(self, topic: TopicModel, changes: Changes) -> None:
        """Note that a change met a deletion on its way: it may reach the next life."""
        model = self._model(topic)
        if model is not None:
            model.unsure(changes)
            self._adopt(topic, model)

    def _adopt(self, topic: TopicModel, model: SettingsModel) -> None:
        """Have the topic's model know the settings: unsure ones of an fsync promise nothing."""
        if self._models.get(topic.name, (b"",))[0] != topic.topic_id:
            return
        for key in model.possible:
            values = model.may_be(key)
            if len(values) > 1 and key != _FLUSH:
                continue
            value = values[0] if len(values) == 1 else None
            if value is None:
                topic.settings.pop(key, None)
            else:
                topic.settings[key] = value

    def _grow(self, topic: TopicModel, client: Client, more: int, is_trial: bool) -> Action:
        model = self._model(topic)
        if model is None:
            return
        before = list(model.counts)
        count = before[-1] + more
        if count > _MOST_PARTITIONS:
            return
        change = model.begin([_COUNT])
        if not is_trial and count not in before and count > before[0]:
            model.counts = sorted([*before, count])
        asked = client.send(_GROW, ([(topic.name, count, None)], 30_000, is_trial))
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer.results[0]
        self._history.tell(f"  grow {topic.name} to {count}: {answer.error_code}")
        present = self._model(topic)
        if present is not model:
            if present is not None and not is_trial and count > topic.partitions:
                present.counts = sorted({*present.counts, count})
        elif answer.error_code not in {0, _BAD_COUNT}:
            self._check_failure("grow", topic, answer)
        elif model.end(change):
            self._grown(topic, model, before, count, answer.error_code, is_trial=is_trial)

    def _grown(  # what was asked, and the answer
        self,
        topic: TopicModel,
        model: SettingsModel,
        before: list[int],
        count: int,
        error: int,
        *,
        is_trial: bool,
    ) -> None:
        """Compare an answer to a growth that met no other change."""
        if error == 0 and count <= before[0]:
            raise Wrong(f"{topic.name} grew from {before} to {count}")
        if error and count > before[-1]:
            raise Wrong(f"{topic.name} does not grow from {before} to {count}")
        if error == 0 and not is_trial:
            self._set_count(topic, model, count)

    @staticmethod
    def _set_count(topic: TopicModel, model: SettingsModel, count: int) -> None:
        model.counts = [count]
        topic.partitions = count
        topic.logs += [LogModel(topic.settings) for _ in range(len(topic.logs), count)]

    def _describe(self, topic: TopicModel, client: Client, version: int) -> Action:
        model = self._model(topic)
        if model is None:
            return
        asked = client.send(DESCRIBE_CONFIGS, ([(TOPIC, topic.name, None)],), version)
        yield asked
        if asked.is_lost or self._model(topic) is not model:
            return
        answer = asked.answer.results[0]
        if answer.error_code:
            raise Wrong(f"describe {topic.name}: {answer.error_code} {answer.error_message}")
        own = {each.name: each.value for each in answer.configs if each.config_source == 1}
        in_burst = self._history.step[0] == "burst"
        if not in_burst:  # what was told a moment ago may be of the moment before
            model.told(own, is_settled=self._history.step[0] == "judge")

    # The judge.

    def judge(self) -> None:
        """Compare what all topics have with what they may have."""
        if not self._is_busy:
            return
        client = self._history.client()
        for topic in self._topics:
            self._history.run([self._judge_topic(topic, client)])
        client.reset()

    def _judge_topic(self, topic: TopicModel, client: Client) -> Action:
        model = self._model(topic)
        if model is None:
            return
        asked = client.send(METADATA, ([{"name": topic.name}], False), 12)
        yield asked
        count = len(asked.response.topics[0].partitions)
        if count not in model.counts:
            raise Wrong(f"{topic.name} has {count} partitions, not {model.counts}")
        refused = [] if self._has_started else [each for each in model.counts if each > count]
        self._set_count(topic, model, count)
        model.counts += refused  # the catalogue may have those up to the next start
        yield from self._describe(topic, client, 4)
        self._adopt(topic, model)
