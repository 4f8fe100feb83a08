"""Idempotent producers: batches with sequences, sent again after a loss, several in flight.

A producer keeps a lane for each partition. What a lane has no answer to is sent again, before all
else; a refusal that needs it, or chance, begins the next epoch or gets another producer id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.records import Records
from tests.simulator.clients.requests import PRODUCE, STORAGE, TOO_LARGE, share
from tests.simulator.model.log import Wrong, sent_of
from tests.simulator.model.producers import (
    OLD_EPOCH,
    OUT_OF_ORDER,
    SEQUENCES,
    Memory,
    Numbered,
)
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.history import Action, History
    from tests.simulator.model.topics import TopicModel
    from tests.simulator.wire import Client, Question

INIT_PRODUCER_ID: Final = 22
IN_FLIGHT: Final = 5
_NONE: Final = -1
_LAST_EPOCH: Final = 32_767
_RECENT: Final = 8
_MOST_IN_SMALL_SEGMENTS: Final = 100


class Lane:
    """The batches of a producer for one partition."""

    def __init__(self, topic: TopicModel, partition: int, sequence: int) -> None:
        self.topic = topic
        self.partition = partition
        self.log = topic.logs[partition]
        self.memory = Memory(self.log)
        self.sequence = sequence
        self.pending: list[Numbered] = []
        self.recent: list[Numbered] = []

    @property
    def is_current(self) -> bool:
        """Tell whether the topic lives and is the one that the lane began with."""
        is_present = self.topic.presence is Presence.PRESENT
        return is_present and self.log in self.topic.logs


class Producer:
    """One producer, as long as it has its id."""

    def __init__(self, producer_id: int, epoch: int, sequence: int) -> None:
        self.id = producer_id
        self.epoch = epoch
        self.first_sequence = sequence
        self.known: dict[bytes, Numbered] = {}
        self._lanes: dict[tuple[str, int], Lane] = {}

    @property
    def lanes(self) -> list[Lane]:
        """All lanes, the eldest first."""
        return list(self._lanes.values())

    def lane(self, topic: TopicModel, partition: int) -> Lane:
        """Return the lane of a partition; the topic exists. A new topic may know old batches."""
        key = topic.name, partition
        lane = self._lanes.get(key)
        if lane is None or lane.log is not topic.logs[partition]:
            before, sequence = lane, self.first_sequence
            lane = self._lanes[key] = Lane(topic, partition, sequence)
            lane.memory.is_open = before is not None
        return lane

    def next_epoch(self) -> None:
        """Begin the next epoch with the first sequence; what has no answer is given up."""
        self.epoch += 1
        self.first_sequence = 0
        for lane in self.lanes:
            lane.sequence = 0
            lane.pending.clear()
            lane.recent.clear()


class Slot:
    """A place for one producer at a time, with a connection of its own."""

    def __init__(self, history: History, sequence: int, version: int) -> None:
        self.client = self.own = history.client()
        self.sequence = sequence
        self.version = version
        self.producer: Producer | None = None
        self.is_busy = False


class Sending:
    """Sends batches of producers and judges the answers."""

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def records(self) -> Records:
        """The part that has the topics."""
        records: Records = self._history.parts["records"]
        return records

    def make(  # a batch's parameters
        self,
        producer: Producer,
        lane: Lane,
        sequence: int,
        count: int,
        size: int,
        codec: int,
        *,
        epoch: int | None = None,
        flags: int = 0,
    ) -> Numbered:
        """Return a new batch of a producer."""
        if lane.log.settings.get("segment.bytes") == "300":
            count, size = 1, min(size, _MOST_IN_SMALL_SEGMENTS)
        frame, stamps = self.records.make(
            count,
            size,
            codec,
            producer_id=producer.id,
            producer_epoch=producer.epoch if epoch is None else epoch,
            base_sequence=sequence,
            flags=flags,
        )
        batch = Numbered(sent_of(frame, stamps), bytes(frame), lane.log.end)
        producer.known[batch.sent.body] = batch
        return batch

    def ask(
        self,
        client: Client,
        version: int,
        lane: Lane,
        batch: Numbered,
        transactional_id: str | None = None,
    ) -> Question:
        """Send a batch, which may be on its way already."""
        return self.ask_all(client, version, [(lane, batch)], transactional_id)

    def ask_all(
        self,
        client: Client,
        version: int,
        batches: list[tuple[Lane, Numbered]],
        transactional_id: str | None = None,
    ) -> Question:
        """Send batches for several partitions in one request."""
        data: dict[tuple[str, bytes], list[tuple[int, bytes]]] = {}
        for lane, batch in batches:
            lane.memory.expire(self.records.expired_ms)
            if batch.tries:
                lane.log.sending_again(batch.sent, is_known=not lane.memory.may_be_empty)
            else:
                lane.log.sending(batch.sent)
            lane.memory.sending(batch)
            topic = data.setdefault((lane.topic.name, lane.topic.topic_id), [])
            topic.append((lane.partition, batch.frame))
        topics = [(*topic, each) for topic, each in data.items()]
        row = transactional_id, -1, 30_000, topics
        return client.send(PRODUCE, row, version)

    @staticmethod
    def answer_to(lane: Lane, asked: Question) -> Any:
        """Return what is answered for a lane, whose topic still lives."""
        (answer,) = (
            one
            for each in asked.answer.responses
            if each.name == lane.topic.name or each.topic_id == lane.topic.topic_id
            for one in each.partition_responses
            if one.index == lane.partition
        )
        return answer

    def read(self, lane: Lane, batch: Numbered, asked: Question) -> int | None:
        """Judge an answer; return its error, None if no answer counts."""
        if asked.is_lost:
            return None
        if not lane.is_current or self.records.may_miss(lane.topic, lane.log):
            lane.memory.is_open = True
            return None
        answer = self.answer_to(lane, asked)
        error: int = answer.error_code
        name = f"{lane.topic.name}-{lane.partition}"
        self._history.tell(f"  {name} {batch.numbers[:4]} error {error} base {answer.base_offset}")
        try:
            self.note(lane, batch, error, answer.base_offset)
        except Wrong as wrong:
            raise Wrong(f"{name}: {wrong}") from wrong
        if error and error != STORAGE and batch.tries == 1:
            lane.log.refused(batch.sent)
        return error

    def note(self, lane: Lane, batch: Numbered, error: int, base: int) -> None:
        """Judge an answer, and note what it says of the log."""
        lane.memory.expire(self.records.expired_ms)
        if error == 0:
            there = lane.memory.taken(batch, base)
            if there is not None:
                lane.log.acknowledged_once(there.sent, base, there.end_before)
                self.records.check_durable(lane.topic, lane.partition, there.sent, base)
        elif error in {OUT_OF_ORDER, OLD_EPOCH}:
            lane.memory.refused(batch, error)
        elif error in TOO_LARGE:
            lane.memory.left_out(batch)
        elif error != STORAGE or self._history.works(lane.topic.name, lane.partition):
            raise Wrong(f"error {error}")


class Producers:
    """The idempotent producers of a history."""

    PLACE: Final = 2
    WEIGHTS: Final = {
        "producer_send": 5,
        "producer_repeat": 1.5,
        "producer_skip": 0.5,
        "producer_zombie": 0.5,
        "producer_renew": 0.3,
    }

    @staticmethod
    def draw(rng: Random) -> list[list[int]]:
        """Return the first sequence of each producer, and the version of its requests."""
        return [
            [rng.choice((0, 0, SEQUENCES - rng.randrange(1, 9))), rng.choice((7, 11, 12, 12, 13))]
            for _ in range(rng.choice((1, 2, 2, 4)))
        ]

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return producer, topic, partition and one more as shares of 1, and what else it needs."""
        step: list[Any] = [share(rng) for _ in range(4)]
        if kind == "producer_renew":
            return [*step, rng.random() < 0.5]
        step += [rng.choice((1, 1, 2, 5)), rng.choice((1, 20, 60, 600)), rng.choice((0, 0, 1, 4))]
        if kind == "producer_send":
            step += [rng.choice((1, 1, 2, 3, 5)), rng.choice((_NONE, _NONE, _NONE, 0, 1))]
        return step

    def __init__(self, history: History, drawn: list[list[int]]) -> None:
        self._history = history
        self._slots = [Slot(history, *each) for each in drawn]
        self._ids: dict[int, None] = {}
        self._sending = Sending(history)

    def play(
        self, kind: str, who: float, which: float, partition: float, where: float, *rest: Any
    ) -> Action:
        """Play a step, unless the producer is in another one."""
        slot = self._slots[int(who * len(self._slots))]
        topics = list(self._sending.records.topics.values())
        topic = topics[int(which * len(topics))]
        if slot.is_busy:
            return
        slot.is_busy = True
        slot.client = self._history.beside(slot.own, keeps=True)
        try:
            if slot.producer is None:
                yield from self._renew(slot)
            if slot.producer is None or topic.presence is not Presence.PRESENT:
                return
            lane = slot.producer.lane(topic, int(partition * topic.partitions))
            if kind == "producer_send":
                yield from self._send(slot, slot.producer, lane, *rest)
            elif kind == "producer_repeat":
                yield from self._repeat(slot, slot.producer, lane, where)
            elif kind == "producer_skip":
                yield from self._skip(slot, slot.producer, lane, where, *rest)
            elif kind == "producer_zombie":
                yield from self._send_old(slot, slot.producer, lane, *rest)
            elif rest[0]:
                slot.producer.next_epoch()
            else:
                yield from self._renew(slot)
        finally:
            slot.is_busy = False

    def _renew(self, slot: Slot) -> Action:
        """Ask for a producer id; those of before are not used any more."""
        asked = slot.client.send(INIT_PRODUCER_ID, (None, (1 << 31) - 1), 4)
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer
        if answer.error_code:
            if self._history.is_sound:
                raise Wrong(f"a producer gets no id: error {answer.error_code}")
        elif answer.producer_id in self._ids or answer.producer_epoch:
            raise Wrong(f"id {answer.producer_id} with epoch {answer.producer_epoch} is not new")
        else:
            self._ids[answer.producer_id] = None
            slot.producer = Producer(answer.producer_id, 0, slot.sequence)

    # Batches.

    def _send(  # a step's parameters
        self,
        slot: Slot,
        producer: Producer,
        lane: Lane,
        count: int,
        size: int,
        codec: int,
        batches: int,
        vanishes: int,
    ) -> Action:
        """Send again what has no answer, then new batches, all of them before the first answer.

        A producer that loses its connection sends again at once.
        """
        while len(lane.pending) < batches:
            batch = self._sending.make(producer, lane, lane.sequence, count, size, codec)
            lane.sequence = batch.following
            lane.pending.append(batch)
        asked = [
            (each, self._sending.ask(slot.client, slot.version, lane, each))
            for each in lane.pending[:IN_FLIGHT]
        ]
        must_renew = False
        for at, (batch, question) in enumerate(asked):
            if at == vanishes and slot.client is slot.own:
                slot.client.reset()
            yield question
            error = self._sending.read(lane, batch, question)
            if error is None or error == STORAGE:
                continue
            if batch in lane.pending:
                lane.pending.remove(batch)
            if error:
                must_renew = True
            else:
                lane.recent = [*lane.recent, batch][-_RECENT:]
        if must_renew:
            producer.next_epoch()
            if producer.epoch == _LAST_EPOCH:
                slot.producer = None
        elif vanishes >= 0 and lane.is_current and not self._history.is_killed:
            yield from self._send(slot, producer, lane, count, size, codec, 0, _NONE)

    def _repeat(self, slot: Slot, producer: Producer, lane: Lane, where: float) -> Action:
        """Send a batch again that was acknowledged, even one that the log has forgotten."""
        if lane.recent and not lane.pending:
            batch = lane.recent[int(where * len(lane.recent))]
            asked = self._sending.ask(slot.client, slot.version, lane, batch)
            yield asked
            self._sending.read(lane, batch, asked)

    def _skip(  # a step's parameters
        self,
        slot: Slot,
        producer: Producer,
        lane: Lane,
        where: float,
        count: int,
        size: int,
        codec: int,
    ) -> Action:
        """Send a batch with a gap before it; a log that knows nothing of the producer takes it."""
        if lane.pending:
            return
        sequence = (lane.sequence + 1 + int(where * 20)) % SEQUENCES
        batch = self._sending.make(producer, lane, sequence, count, size, codec)
        asked = self._sending.ask(slot.client, slot.version, lane, batch)
        yield asked
        error = self._sending.read(lane, batch, asked)
        if error == 0:
            lane.sequence = batch.following
        elif error is None or error == STORAGE:
            producer.next_epoch()

    def _send_old(  # a step's parameters
        self, slot: Slot, producer: Producer, lane: Lane, count: int, size: int, codec: int
    ) -> Action:
        """Send a batch of the epoch before."""
        if producer.epoch and not lane.pending:
            epoch = producer.epoch - 1
            batch = self._sending.make(producer, lane, 0, count, size, codec, epoch=epoch)
            asked = self._sending.ask(slot.client, slot.version, lane, batch)
            yield asked
            self._sending.read(lane, batch, asked)

    # The judge.

    def restarted(self, way: str) -> None:
        """Note that of old batches only the last is known surely."""
        for slot in self._slots:
            for lane in slot.producer.lanes if slot.producer is not None else ():
                lane.memory.restarted(way)

    def judge(self) -> None:
        """Take from the logs what they remember."""
        for slot in self._slots:
            producer = slot.producer
            for lane in producer.lanes if producer is not None else ():
                if lane.is_current and producer is not None:
                    lane.memory.settle(producer.known)

    def settled(self) -> None:
        """Note that what had no answer before the restart does not come any more."""
        for slot in self._slots:
            for lane in slot.producer.lanes if slot.producer is not None else ():
                lane.memory.settled()
                for batch in (*lane.pending, *lane.recent):
                    batch.end_before = min(batch.end_before, lane.log.end)
