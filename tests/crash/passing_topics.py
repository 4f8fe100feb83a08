"""Topics that are made, changed and deleted while their broker dies, under the same few names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException, Message, Producer, TopicCollection, Uuid
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.support.load import CONNECTION
from tests.support.waiting import PATIENCE
from tools.checker.events import Change, Changed, Doomed, Partition, RecordId, Shape, Shown

if TYPE_CHECKING:
    import random
    from concurrent.futures import Future

    from confluent_kafka import KafkaError

    from tests.support.ledger import Ledger

NAMES = 6
MAX_PARTITIONS = 4
SETTING = "max.message.bytes"


class Topic(NamedTuple):
    """A topic and its settings."""

    partitions: int
    setting: int

    def __str__(self) -> str:
        return f"{self.partitions} partitions, {SETTING}={self.setting}"


class Request(NamedTuple):
    """A request under way for one topic, and what the topic is once it is done."""

    name: str
    wanted: Topic | None
    answer: Future[Any]


class PassingTopics:
    """A few names, what the broker last said of each, and requests that nobody waits for.

    A name has one request under way at a time, so that a kill leaves it as it was or as it was to
    be. A topic that comes back from the dead is known by its id, and by the records in it.
    """

    def __init__(
        self, bootstrap: str, ledger: Ledger, prefix: str, random_numbers: random.Random
    ) -> None:
        self.changes = 0
        self.deletions = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **CONNECTION})
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._random = random_numbers
        self._prefix = prefix
        self._names = [f"{prefix}{number}" for number in range(NAMES)]
        self._there: dict[str, Topic] = {}
        self._lives: dict[str, list[str]] = {name: [] for name in self._names}
        self._requests: list[Request] = []
        self._unsure: set[str] = set()  # names whose last request had no answer
        self._sent = 0

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of the topics that exist."""
        return [
            Partition(name, number, len(self._lives[name]))
            for name, topic in self._there.items()
            for number in range(topic.partitions)
        ]

    def begin(self, count: int = 1) -> None:
        """Ask for changes of some names, and do not wait."""
        busy = {request.name for request in self._requests} | self._unsure
        free = [name for name in self._names if name not in busy]
        for name in self._random.sample(free, min(count, len(free))):
            self._change(name)

    def settle(self) -> None:
        """Wait for the answers, or their want, and note what the broker says."""
        for request in self._requests:
            try:
                request.answer.result(PATIENCE)
            except KafkaException:
                self._unsure.add(request.name)  # it happened or it did not; the broker will show
                continue
            self._ledger.checker.take(Changed(Shape(request.name), text(request.wanted)))
            if request.wanted is None:
                del self._there[request.name]
            else:
                self._there[request.name] = request.wanted
        self._requests.clear()

    def show(self) -> None:
        """Note what topics there are; nothing is under way."""
        names = self._admin.list_topics(timeout=PATIENCE).topics
        self._unsure.clear()
        self._there = self._describe([name for name in names if name.startswith(self._prefix)])
        for name in {*self._names, *self._there}:
            shown = text(self._there.get(name))
            self._ledger.checker.take(Shown(Shape(name), shown, settled=True))
        self._ledger.judge()

    def fill(self) -> None:
        """Write a record to every partition: one that shows in a later life gives it away."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0, **CONNECTION})
        delivered = 0

        def deliver(fault: KafkaError | None, message: Message) -> None:
            nonlocal delivered
            value, offset = message.value(), message.offset()
            assert fault is None, f"a topic that exists refuses a record: {fault}"
            assert value is not None
            assert offset is not None
            self._ledger.acknowledge(value, offset)
            delivered += 1

        for each in self.partitions:
            record = RecordId(self._prefix, self._sent)
            value = self._ledger.send(record, each)
            producer.produce(each.topic, value, partition=each.number, on_delivery=deliver)
            self._sent += 1
        producer.flush(PATIENCE)
        assert delivered == len(self.partitions)

    def delete_all(self) -> None:
        """Delete the topics, and see that they are gone."""
        for name in list(self._there):
            self._delete(name)
        self.settle()
        self.show()
        assert not self._there

    def _change(self, name: str) -> None:
        topic = self._there.get(name)
        self.changes += 1
        if topic is None:
            self._create(name, Topic(self._random.randint(1, 3), self._new_setting()))
        elif self._random.random() < 0.5:
            self._delete(name)
        elif topic.partitions < MAX_PARTITIONS and self._random.random() < 0.5:
            wanted = topic._replace(partitions=topic.partitions + 1)
            new = NewPartitions(name, wanted.partitions)
            self._ask(name, wanted, self._admin.create_partitions([new]))
        else:
            self._alter(name, topic._replace(setting=self._new_setting()))

    def _new_setting(self) -> int:
        return self._random.randrange(1_000_000, 2_000_000)

    def _create(self, name: str, wanted: Topic) -> None:
        new = NewTopic(name, wanted.partitions, config={SETTING: str(wanted.setting)})
        self._ask(name, wanted, self._admin.create_topics([new]))

    def _delete(self, name: str) -> None:
        self.deletions += 1
        for each in self.partitions:
            if each.topic == name:
                self._ledger.checker.take(Doomed(each))
        self._ask(name, None, self._admin.delete_topics([name]))

    def _alter(self, name: str, wanted: Topic) -> None:
        entry = ConfigEntry(
            SETTING, str(wanted.setting), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        self._ask(name, wanted, self._admin.incremental_alter_configs([resource]))

    def _ask(self, name: str, wanted: Topic | None, answers: dict[Any, Future[Any]]) -> None:
        (answer,) = answers.values()
        self._ledger.checker.take(Change(Shape(name), text(wanted)))
        self._requests.append(Request(name, wanted, answer))

    def _describe(self, names: list[str]) -> dict[str, Topic]:
        """Return what each topic is, and begin a new life for each id that is new."""
        if not names:
            return {}
        described = self._admin.describe_topics(TopicCollection(names))
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        configs = self._admin.describe_configs(resources)
        there = {}
        for resource, answer in configs.items():
            topic = described[resource.name].result(PATIENCE)
            setting = int(answer.result(PATIENCE)[SETTING].value)
            there[resource.name] = Topic(len(topic.partitions), setting)
            self._note_life(resource.name, topic.topic_id)
        return there

    def _note_life(self, name: str, topic_id: Uuid) -> None:
        lives = self._lives.setdefault(name, [])
        if str(topic_id) not in lives:
            lives.append(str(topic_id))
        assert lives[-1] == str(topic_id), f"{name} has an id again that was deleted"


def text(topic: Topic | None) -> str | None:
    """Return how a topic, or its want, is written in a history."""
    return None if topic is None else str(topic)
