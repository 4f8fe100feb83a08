"""Transactional producers: open, commit, abort, time out, are fenced, vanish and are followed.

A producer follows ``transaction.version`` 2, which adds partitions with their batches and gets its
next epoch when a transaction ends, or the version before. What was not answered is sent again; a
producer that does not know where it stands asks for its next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.transactions import initialising
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.names import OFFSETS_TOPIC
from tests.simulator.clients.producers import INIT_PRODUCER_ID, Lane, Producer, Sending
from tests.simulator.clients.requests import (
    CREATE_TOPICS,
    JUDGES_SPLIT,
    STORAGE,
    TOO_LARGE,
    creation,
    send_fetch,
    share,
)
from tests.simulator.model.compacted import read_frames
from tests.simulator.model.groups import is_certain
from tests.simulator.model.log import LogModel, Wrong, read_batches
from tests.simulator.model.producers import OUT_OF_ORDER
from tests.simulator.model.topics import Presence, TopicModel
from tests.simulator.model.transactions import (
    ABORT,
    COMMIT,
    OPEN,
    Transaction,
    View,
    judge_keys,
    read_committed,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Container, Generator
    from random import Random

    from tests.simulator.clients.groups import Groups
    from tests.simulator.history import Action, History
    from tests.simulator.model.groups import GroupModel, Register
    from tests.simulator.model.producers import Numbered
    from tests.simulator.wire import Client, Question

FIND_COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, COMMIT_OFFSETS = 10, 24, 25, 26, 28
DESCRIBE_PRODUCERS, DESCRIBE, LIST = 61, 65, 66
_REFUSALS: Final = (45, 47, 48, 49, 90, 120)
"""The producer is fenced, or its transaction is not open."""
_CONCURRENT: Final = 51
_SENDERS: Final = (22, 25, 82)
"""Another generation, an unknown or fenced member."""
_LATER: Final = (14, 15, 16, 19, _CONCURRENT, STORAGE)
"""The disk does not take it, or a transaction has not ended since the disk did not take that."""
_UNKNOWN, _LONG_METADATA, _LOADING = 3, 12, 14
_LONG: Final = 4097
_LAST_EPOCH: Final = 32_766
_begin: Final = initialising.begin
_NEWER: Final = 12
"""The version of Produce that adds partitions."""
_NONE: Final = -1
_OF_OFFSETS: Final = (OFFSETS_TOPIC, _NONE)
"""Stands for the partition that has a group's offsets."""
_SLACK_MS: Final = 20_000
_TRIES: Final = 4
"""So often logs are read until no transaction has ended between."""
_MOST_READS: Final = 8


class Slot:
    """A transactional id, and the producer that uses it at present."""

    def __init__(self, history: History, name: str, version: int, timeout_ms: int) -> None:
        self.name = name
        self.client = history.client()
        self.version = version
        self.timeout_ms = timeout_ms
        self.known: dict[int, Producer] = {}
        self.producer: Producer | None = None
        self.transaction: Transaction | None = None
        self.pending: list[tuple[Lane, Numbered]] = []
        self.wanted: str | None = None
        self.must_abort = self.is_joint = False
        self.fenced: tuple[Producer, int] | None = None
        self.is_busy = False

    @property
    def is_newer(self) -> bool:
        """Tell whether it follows version 2."""
        return self.version >= _NEWER

    @property
    def lanes(self) -> list[Lane]:
        """The lanes of all producers that it had."""
        return [lane for producer in self.known.values() for lane in producer.lanes]

    def follow(self) -> None:
        """Take another transactional id: the old one may have lost epochs that were used."""
        self.name += "'"
        self.known = {}
        self.producer = self.fenced = None
        self.forget()

    def forget(self) -> None:
        """Leave the transaction to the next producer, or to its time-out."""
        self.transaction = self.wanted = None
        self.pending.clear()
        self.must_abort = False

    def began(self, producer_id: int, epoch: int) -> None:
        """Note the producer id and epoch with which it goes on."""
        producer = self.known.setdefault(producer_id, Producer(producer_id, epoch, 0))
        if producer.epoch != epoch:
            producer.next_epoch()
            producer.epoch = epoch
        self.producer = producer


class Transactions:
    """The transactional producers of a history."""

    PLACE: Final = 2
    WEIGHTS: Final = {
        "txn_send": 5,
        "txn_offsets": 2,
        "txn_end": 2.5,
        "txn_renew": 0.5,
        "txn_zombie": 0.4,
    }

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return the version of Produce and the time-out of each transactional id, and the rest.

        New ids may begin where their epochs are nearly used up.
        """
        ids = [
            [rng.choice((11, 12, 13)), rng.choice((5_000, 60_000, 600_000))]
            for _ in range(rng.choice((1, 2, 2, 3, 6)))
        ]
        first = rng.choice((0, 0, _LAST_EPOCH - rng.randrange(4)))
        compacted: dict[str, str] = {
            "cleanup.policy": "compact",
            "segment.bytes": rng.choice(("300", "2000")),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": rng.choice(("0", "1000", "86400000")),
        }
        return {
            "ids": ids,
            "segment_bytes": rng.choice((0, 0, 1000)),
            "first_epoch": first,
            "compacted": rng.choice(({}, compacted)),
        }

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return the broker's settings: small segments of the journal are compacted."""
        size = drawn["segment_bytes"]
        return [f"transaction.state.log.segment.bytes={size}"] if size else []

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return the id and the partition as shares of 1, and what else the step needs."""
        which, where, group = (share(rng) for _ in range(3))
        if kind == "txn_renew":
            return [which, rng.random() < 0.5]
        if kind == "txn_end":
            return [which, rng.random() < 0.65, rng.random() < 0.2]
        if kind == "txn_offsets":
            size = rng.choice((0, 0, 5, 5, 5, _LONG))
            return [which, where, group, size, rng.choice(("", "as_member", "as_member", "wrong"))]
        if kind == "txn_zombie":
            return [which, where, rng.random() < 0.5]
        batch = [rng.choice((1, 1, 2, 5)), rng.choice((1, 20, 60, 600)), rng.choice((0, 0, 1, 4))]
        count = rng.choice((1, 1, 2, 3))
        return [which, where, *batch, count, rng.random() < 0.1, rng.random() < 0.6]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._sending = Sending(history)
        self._slots = [Slot(history, f"txn-{at}", *each) for at, each in enumerate(drawn["ids"])]
        self._all: list[Transaction] = []
        self._started_ms = 0
        self._is_loading = False
        self._hits = 0
        self._torn: set[int] = set()
        self._compacted = TopicModel("melons", drawn["compacted"], 1)
        first = drawn["first_epoch"]
        initialising.begin = lambda *row: _begin(*row)._replace(producer_epoch=first)

    def set_up(self) -> Action:
        """Have the broker make the topic of its coordinator, and wait for it."""
        client = self._history.client()
        errors: list[int] = [_CONCURRENT]
        while any(errors):
            row = {"key_type": 1, "coordinator_keys": ["any"]}
            asked = client.send(FIND_COORDINATOR, row, 4)
            yield asked
            errors = [each.error_code for each in asked.answer.coordinators]
        topic = self._compacted
        if topic.settings:
            asked = client.send(CREATE_TOPICS, creation(topic.name, 1, topic.settings))
            yield asked
            topic.born(asked.answer.topics[0].topic_id)
        client.reset()

    def play(self, kind: str, which: float, *rest: Any) -> Action:
        """Play a step, unless the producer is in another one."""
        slot = self._slots[int(which * len(self._slots))]
        if not slot.is_busy:
            slot.is_busy = True
            try:
                yield from getattr(self, f"_{kind}")(slot, *rest)
            finally:
                slot.is_busy = False

    # Producers.

    def _txn_renew(self, slot: Slot, keeps: bool) -> Action:
        """Begin the next epoch; one that ``keeps`` its producer says which it has (KIP-360)."""
        before, transaction = slot.producer, slot.transaction
        own = (before.id, before.epoch) if before is not None and keeps else ()
        row = slot.name, slot.timeout_ms, *own
        self._look()
        slot.producer = None
        slot.forget()
        for _ in range(3):
            if transaction is not None:
                transaction.may_end(ABORT)
            asked = slot.client.send(INIT_PRODUCER_ID, row, 4)
            yield asked
            if asked.is_lost:
                return
            if asked.answer.error_code != _CONCURRENT:
                break
        _, error, *numbers = asked.answer[:4]
        self._history.tell(f"  {slot.name} is {numbers}: error {error}")
        if error:
            may_be = error in _REFUSALS and keeps and self._may_be_over(transaction)
            if not may_be and (error not in _LATER or self._is_sound):
                raise Wrong(f"{slot.name} gets no epoch: error {error}")
            return
        self._begin(slot, before, numbers)

    def _begin(self, slot: Slot, before: Producer | None, numbers: list[int]) -> None:
        """Begin an epoch, which ends all earlier transactions of the id."""
        if before is not None:
            if numbers <= [before.id, before.epoch] or numbers[1] > _LAST_EPOCH:
                raise Wrong(f"{slot.name} is {numbers} after epoch {before.epoch}")
            slot.fenced = before, before.epoch
        for each in self._all:
            if each.name == slot.name:
                each.is_over()
        slot.began(*numbers)

    @property
    def _is_sound(self) -> bool:
        """Tell whether nothing waits for a disk that has failed since the start, or for the start.

        A coordinator may be loading until the judge has seen that it is not.
        """
        has_failed = self._history.hits != self._hits
        return self._history.is_sound and not has_failed and not self._is_loading

    def _look(self) -> None:
        """Note that time may have ended open transactions."""
        for each in self._all:
            each.looked_at(self._history.now_ms)

    def _may_be_over(self, transaction: Transaction | None) -> bool:
        self._look()
        return transaction is None or transaction.may != [OPEN]

    def _is_taken(self, slot: Slot, transaction: Transaction, error: int, what: str) -> bool:
        """Tell whether a request of an open transaction was taken.

        Raises:
            Wrong: It had no reason to be refused.
        """
        self._history.tell(f"  {slot.name} {what}: error {error}")
        may_be = error in _REFUSALS and self._may_be_over(transaction)
        if error and not may_be and (error not in _LATER or self._is_sound):
            raise Wrong(f"{slot.name} {what}: error {error}; {transaction} is open")
        if not error:
            transaction.last_ms = self._history.now_ms
        return not error

    # Records.

    def _places(self) -> list[tuple[TopicModel, int]]:
        return [
            (topic, partition)
            for topic in self._sending.records.topics.values()
            if topic.presence is Presence.PRESENT
            for partition in range(topic.partitions)
        ]

    def _txn_send(  # a step's parameters
        self,
        slot: Slot,
        where: float,
        count: int,
        size: int,
        codec: int,
        partitions: int,
        vanishes: bool,
        is_joint: bool = False,
    ) -> Action:
        """Send a batch to each of some partitions, in the open transaction or in a new one.

        They are in requests of their own, or in one that ``is_joint``.
        """
        slot.is_joint = is_joint
        yield from self._prepare(slot)
        yield from self._send_again(slot)
        producer, places = slot.producer, self._places()
        if self._compacted.settings:
            places.append((self._compacted, 0))
        if producer is None or not places or slot.must_abort or slot.pending:
            return
        first = int(where * len(places))
        lanes = [producer.lane(*each) for each in places[first : first + partitions]]
        transaction = self._transaction(slot, producer)
        if not slot.is_newer:
            yield from self._add(slot, transaction, producer, lanes)
        for lane in [] if slot.must_abort else lanes:
            batch = self._sending.make(
                producer, lane, lane.sequence, count, size, codec, flags=TRANSACTIONAL
            )
            lane.sequence = batch.following
            slot.pending.append((lane, batch))
        yield from self._send_again(slot, vanishes=vanishes)

    def _prepare(self, slot: Slot) -> Action:
        """End what must end, and get an epoch, so that a transaction can go on or begin."""
        if slot.wanted or slot.must_abort:
            yield from self._txn_end(slot, False, False)
        if slot.producer is None:
            yield from self._txn_renew(slot, False)

    def _transaction(self, slot: Slot, producer: Producer) -> Transaction:
        """Return the open transaction, or begin one."""
        if slot.transaction is None:
            now_ms = self._history.now_ms
            numbers = producer.id, producer.epoch
            slot.transaction = Transaction(slot.name, numbers, now_ms, now_ms + slot.timeout_ms)
            self._all.append(slot.transaction)
        return slot.transaction

    def _send_again(self, slot: Slot, *, vanishes: bool = False) -> Action:
        """Send what has no answer yet."""
        transaction = slot.transaction
        if transaction is None:
            return
        slot.must_abort |= not all(lane.is_current for lane, _ in slot.pending)
        slot.pending = [each for each in slot.pending if each[0].is_current]
        for lane, _ in slot.pending:
            transaction.partitions.setdefault((lane.topic.name, lane.partition), False)
        lots = [[each] for each in slot.pending]
        if slot.is_joint and slot.pending:
            lots = [slot.pending.copy()]
        ask = self._sending.ask_all
        asked = [(lot, ask(slot.client, slot.version, lot, slot.name)) for lot in lots]
        if vanishes:
            slot.client.reset()
        for lot, question in asked:
            yield question
            for lane, batch in [] if question.is_lost else lot:
                self._read(slot, transaction, lane, batch, question)

    def _read(
        self, slot: Slot, transaction: Transaction, lane: Lane, batch: Numbered, asked: Question
    ) -> None:
        if not lane.is_current or self._sending.records.may_miss(lane.topic, lane.log):
            lane.memory.is_open = slot.must_abort = True
            return
        answer = self._sending.answer_to(lane, asked)
        error, base = answer.error_code, answer.base_offset
        name = f"{lane.topic.name}-{lane.partition} {batch.numbers[:4]} at {base}"
        if error in TOO_LARGE:
            self._sending.note(lane, batch, error, base)
        elif error == OUT_OF_ORDER and batch.numbers.first and lane.memory.may_be_empty:
            lane.memory.left_out(batch)
        elif self._is_taken(slot, transaction, error, name):
            self._sending.note(lane, batch, error, base)
            transaction.batches.append((lane.log, batch))
            transaction.partitions[lane.topic.name, lane.partition] = True
        elif error in _LATER:
            return
        else:
            lane.memory.left_out(batch)
        slot.pending.remove((lane, batch))
        slot.must_abort |= error != 0
        if error and batch.tries == 1:
            lane.log.refused(batch.sent)

    def _add(
        self, slot: Slot, transaction: Transaction, producer: Producer, lanes: list[Lane]
    ) -> Action:
        """Add partitions to the transaction."""
        places = [(lane.topic.name, lane.partition) for lane in lanes]
        places = [each for each in places if not transaction.partitions.get(each)]
        if not places:
            return
        topics = [(name, [number]) for name, number in places]
        row = (), slot.name, producer.id, producer.epoch, topics
        asked = slot.client.send(ADD_PARTITIONS, row, 3)
        slot.must_abort = True
        for each in places:
            transaction.partitions.setdefault(each, False)
        yield asked
        if asked.is_lost:
            return
        results = asked.answer.results_by_topic_v3_and_below
        errors = [one.partition_error_code for each in results for one in each.results_by_partition]
        if _UNKNOWN in errors:
            if {(topic.name, number) for topic, number in self._places()} >= set(places):
                raise Wrong(f"{slot.name} adds {places}: {errors}, although the topics exist")
        elif self._is_taken(slot, transaction, max(errors), f"adds {places}"):
            slot.must_abort = False
            transaction.partitions.update(dict.fromkeys(places, True))

    # Offsets.

    def _txn_offsets(
        self, slot: Slot, where: float, which: float, size: int, how: str = ""
    ) -> Action:
        """Commit an offset of a group with the transaction, as nobody, or as a member of it."""
        groups: Groups = self._history.parts["groups"]
        among = groups.judged if how else groups.groups
        group = among[int(which * len(among))]
        found = yield from groups.find_coordinator(slot.client, group)
        yield from self._prepare(slot)
        producer, places = slot.producer, self._places()
        if not found or not places or producer is None or slot.wanted or slot.must_abort:
            return
        transaction = self._transaction(slot, producer)
        transaction.partitions.setdefault(_OF_OFFSETS, False)
        slot.must_abort = True
        if not slot.is_newer:
            row = slot.name, producer.id, producer.epoch, group.name
            asked = slot.client.send(ADD_OFFSETS, row, 3)
            yield asked
            if asked.is_lost or not self._is_taken(
                slot, transaction, asked.answer.error_code, f"adds {group.name}"
            ):
                return
            transaction.partitions[_OF_OFFSETS] = True
        topic, partition = places[int(where * len(places))]
        version = 5 if slot.is_newer else 3
        write = groups.make_write(version, _NONE, size, is_exact=False)
        write.is_hidden = write.is_open = True
        if group.members and group.protocol != "consumer":
            write.expires_ms = 0  # it expires with those from when the last member left
        register = group.register(topic, partition)
        is_present = topic.presence is Presence.PRESENT
        transaction.offsets.append((topic, register, register.send(write)))
        rows = [(topic.name, NO_ID, [(partition, *write.value)])]
        commit = slot.name, group.name, producer.id, producer.epoch, rows
        member = group.find_member(which * len(among) % 1) if how else None
        error = yield from self._send_offset(slot, commit, version, group, member, how)
        what = f"{group.name} {topic.name}-{partition} at {write.value.offset}"
        may_miss = not is_present or not is_certain(topic, register.life)
        if error is None:
            return
        may_be = error == _LONG_METADATA and size >= _LONG
        if may_be or error in _SENDERS or (error == _UNKNOWN and may_miss):
            write.refused()
            slot.must_abort = False
        elif self._is_taken(slot, transaction, error, what):
            write.answered(groups.tick(), is_sure=False)
            transaction.partitions[_OF_OFFSETS] = True
            slot.must_abort = False

    def _send_offset(
        self, slot: Slot, row: Any, version: int, group: GroupModel, member: Any, how: str
    ) -> Generator[Any, None, int | None]:
        """Send a commit, in which a member may name a generation that is not its own.

        Raises:
            Wrong: It was taken against the rules of the group, or refused.
        """
        is_classic = group.protocol == "classic"
        is_sure, is_wrong = False, member is not None and how == "wrong"
        sender: tuple[int, str, str | None] = (-1, "", None)
        if member is not None:
            is_sure, member.is_busy = group.is_sure(member, self._history.now_ms), True
            generation = member.generation + is_wrong * (-1 if is_classic else 1)
            sender = generation, member.id, member.instance_id
        *head, rows = row
        asked = slot.client.send(COMMIT_OFFSETS, (*head, *sender, rows), version)
        yield asked
        if member is not None:
            member.is_busy = False
            is_sure &= group.is_sure(member, self._history.now_ms)
        if asked.is_lost:
            return None
        error: int = asked.answer.topics[0].partitions[0].error_code
        what = f"{slot.name} for {sender} of {group.name}: error {error}"
        self._history.tell(f"  {what}")
        if error in _SENDERS and (member is None or (is_sure and not is_wrong)):
            raise Wrong(what)
        if error == 0 and is_wrong and (is_sure or is_classic):
            raise Wrong(what)
        return error

    def find_over(self) -> set[Transaction]:
        """Return the transactions that are over for certain."""
        return {
            each
            for each in self._all
            if OPEN not in each.may and not each.is_torn and self._is_sound
        }

    def may_pend(self, register: Register, over: Container[Transaction]) -> bool:
        """Tell whether a transaction that was not ``over`` before may have an offset for it."""
        return any(
            register.life == other.life or register.may_have(write)
            for each in self._all
            if each not in over
            for _, other, write in each.offsets
        )

    # Ends.

    def _txn_end(self, slot: Slot, commits: bool, vanishes: bool) -> Action:
        """End the transaction, the way that was asked for before if that had no answer."""
        transaction, producer = slot.transaction, slot.producer
        if transaction is None or producer is None:
            return
        if slot.wanted is None:
            yield from self._send_again(slot)
            commits = commits and not slot.pending and not slot.must_abort
            slot.wanted = COMMIT if commits else ABORT
        wanted = slot.wanted
        is_unclear = bool(slot.pending) or slot.must_abort
        row = slot.name, producer.id, producer.epoch, wanted == COMMIT
        for _ in range(2):  # the second one if the first has no answer
            self._look()
            transaction.may_end(wanted)
            asked = slot.client.send(END_TXN, row, 5 if slot.is_newer else 3)
            if vanishes:
                slot.client.reset()
                vanishes = False
            yield asked
            if not asked.is_lost:
                self._note_end(slot, transaction, producer, wanted, asked.answer)
                break
        if is_unclear and slot.transaction is None and not slot.is_newer:
            slot.producer = None
        if transaction.may == [COMMIT] and transaction.batches and self._is_sound:
            yield from self._read_back(slot, transaction)
        if transaction.may == [COMMIT] and transaction.offsets:
            yield from self._fetch_back(slot, transaction)

    def _read_back(self, slot: Slot, transaction: Transaction) -> Action:
        """Read a batch of a transaction that was just committed: readers see it from then on."""
        log, batch = self._history.rng.choice(transaction.batches)
        place = next((each for each in self._places() if each[0].logs[each[1]] is log), None)
        if place is None or batch.base is None:
            return
        topic, partition = place
        asked = send_fetch(slot.client, topic, partition, batch.base, isolation=1)
        yield asked
        if asked.is_lost or not self._is_sound or log not in topic.logs:
            return
        answer = asked.answer.responses[0].partitions[0]
        shown = read_committed(
            list(read_batches(bytes(answer.records or b""))),
            map(tuple, answer.aborted_transactions or ()),
        )
        is_open = any(
            (OPEN in each.may or each.is_torn) and (topic.name, partition) in each.partitions
            for each in self._all
        )
        if answer.error_code == 0 and batch.base not in shown and not is_open:
            raise Wrong(f"{transaction} is committed, but {topic.name}-{partition} shows {shown}")

    def _fetch_back(self, slot: Slot, transaction: Transaction) -> Action:
        """Fetch an offset of a transaction that was just committed."""
        topic, register, _ = self._history.rng.choice(transaction.offsets)
        groups: Groups = self._history.parts["groups"]
        for group in groups.judged:
            if register in group.registers.values():
                yield from groups.fetch(slot.client, group, [topic], 9)

    def _note_end(
        self, slot: Slot, transaction: Transaction, producer: Producer, wanted: str, answer: Any
    ) -> None:
        """Judge the answer to an end."""
        error, *numbers = answer[1:4]
        is_begun = any(transaction.partitions.values())
        may_be = not is_begun or self._history.now_ms > transaction.ends_ms
        may_be |= (ABORT if wanted == COMMIT else COMMIT) in transaction.may
        is_over = may_be and error in _REFUSALS
        if not is_over and not self._is_taken(slot, transaction, error, f"{wanted} {numbers}"):
            return
        slot.forget()
        if error:
            transaction.may_end(ABORT)
            slot.producer = None
            return
        if is_begun:
            transaction.ended(wanted)
            if self._is_sound:
                transaction.took_effect()
        if slot.is_newer:
            due = [producer.id, producer.epoch + 1]
            if numbers != due and (producer.epoch < _LAST_EPOCH or numbers[1]):
                raise Wrong(f"{slot.name} goes on as {numbers}, not as {due}")
            slot.began(*numbers)

    def _txn_zombie(self, slot: Slot, where: float, ends: bool) -> Action:
        """Have the producer that was replaced commit, or write."""
        places = self._places()
        if slot.fenced is None or slot.producer is None or not places:
            return
        producer, epoch = slot.fenced
        if ends:
            row = slot.name, producer.id, epoch, True
            asked = slot.client.send(END_TXN, row, 5 if slot.is_newer else 3)
            yield asked
            error = _CONCURRENT if asked.is_lost else asked.answer.error_code
        else:
            lane = Lane(*places[int(where * len(places))], 0)
            batch = self._sending.make(producer, lane, 0, 1, 1, 0, epoch=epoch, flags=TRANSACTIONAL)
            asked = self._sending.ask(slot.client, slot.version, lane, batch, slot.name)
            yield asked
            if asked.is_lost or self._sending.records.may_miss(lane.topic, lane.log):
                return
            error = asked.answer.responses[0].partition_responses[0].error_code
            if error in _REFUSALS or error in _LATER:
                lane.log.refused(batch.sent)
        self._history.tell(f"  zombie of {slot.name}: error {error}")
        if error not in _REFUSALS and error not in _LATER:
            raise Wrong(f"{slot.name}: epoch {epoch} of {producer.id} is served: error {error}")

    # The judge.

    def restarted(self, way: str) -> None:
        """Note that a power failure may have taken any part of a transaction."""
        self._started_ms = self._history.now_ms
        self._is_loading = True
        self._hits = self._history.hits
        for slot in self._slots:
            for lane in slot.lanes:
                lane.memory.restarted(way)
            if way == "power":
                slot.follow()
        for each in self._all if way == "power" else ():
            each.lost_power()
            self._torn.update(stamp for _, one in each.batches for stamp in one.sent.timestamps)
        if way == "power":
            self._compacted.logs = [LogModel(self._compacted.settings)]

    def settled(self) -> None:
        """Note that what had no answer before the restart does not come any more."""
        for slot in self._slots:
            for lane in slot.lanes:
                lane.memory.settled()
            for producer in slot.known.values():
                for lane in producer.lanes:
                    for batch in producer.known.values():
                        batch.end_before = min(batch.end_before, lane.log.end)

    def judge(self) -> None:
        """Compare what the logs show, what readers see, and what the coordinator tells."""
        opened = [each.transaction for each in self._slots if each.transaction is not None]
        if any(self._history.now_ms > each.ends_ms for each in opened):
            self._history.let_pass(3.0)  # time may have jumped a moment ago
        for slot in self._slots:
            for producer in slot.known.values():
                for lane in producer.lanes:
                    if lane.is_current and lane.topic is not self._compacted:
                        lane.memory.settle(producer.known)
        client = self._history.client(splits=JUDGES_SPLIT)
        self._history.run([self._wait_until_loaded(client)])
        self._history.run([self._judge_all(client)])
        if self._compacted.settings:
            self._history.run([self._judge_compacted(client)])
        client.reset()

    def _wait_until_loaded(self, client: Client) -> Action:
        errors: list[int] = [_LOADING]
        while _LOADING in errors:
            asked = client.send(DESCRIBE, ([each.name for each in self._slots],))
            yield asked
            errors = [each.error_code for each in asked.response.transaction_states]
        self._is_loading = False

    def _judge_all(self, client: Client) -> Action:
        """Judge at one moment: a transaction may time out while logs are read."""
        records = self._sending.records
        for _ in range(_TRIES):
            views: dict[LogModel, View] = {}
            for topic, partition in self._places():
                read = records.judged.pop(topic.logs[partition], None)
                if read is None:
                    read = yield from records.read_log(topic, partition, client)
                views[topic.logs[partition]] = View(*read, is_exact=self._is_sound)
            try:
                for topic, partition in self._places():
                    view = views[topic.logs[partition]]
                    yield from self._judge_reads(topic, partition, view, client)
                    yield from self._judge_producers(topic, partition, view, client)
                self._look()
                settle(self._all, views)
                for each in self._all if self._is_sound else ():
                    each.took_effect()
                yield from self._judge_told(client)
                return
            except Wrong:
                is_same = True
                for topic, partition in self._places():
                    read = yield from records.read_log(topic, partition, client)
                    is_same &= read[1] == views[topic.logs[partition]].end
                if is_same:
                    raise

    def _judge_compacted(self, client: Client) -> Action:
        """Read the committed records of the compacted topic: the last one of each key remains."""
        topic, offset, seen = self._compacted, 0, []
        while True:
            asked = send_fetch(client, topic, 0, offset, isolation=1)
            yield asked
            answer = asked.response.responses[0].partitions[0]
            data = bytes(answer.records or b"")
            batches = list(read_batches(data))
            if not batches:
                break
            shown = read_committed(batches, map(tuple, answer.aborted_transactions or ()))
            frames = [each for each in read_frames(data) if each.base in shown]
            seen += [row for each in frames for row in each.records]
            offset = batches[-1].last + 1
        if answer.error_code:
            raise Wrong(f"{topic.name}: error {answer.error_code}, although the disk works")
        judge_keys(self._all, topic.logs[0], seen, answer.last_stable_offset, self._torn)

    def _judge_producers(
        self, topic: TopicModel, partition: int, view: View, client: Client
    ) -> Action:
        asked = client.send(DESCRIBE_PRODUCERS, ([(topic.name, [partition])],))
        yield asked
        answer = asked.response.topics[0].partitions[0]
        if answer.error_code:
            raise Wrong(f"producers of {topic.name}-{partition}: error {answer.error_code}")
        try:
            view.judge_producers(answer.active_producers, self._sending.records.expired_ms)
        except Wrong as error:
            raise Wrong(f"{topic.name}-{partition}: {error}") from error

    def _judge_reads(self, topic: TopicModel, partition: int, view: View, client: Client) -> Action:
        """Read committed records from the start, and from the middles of some batches."""
        middles = [each for each in view.middles if each > view.start]
        every = max(1, len(middles) // _MOST_READS) if view.ends else len(middles) + 1
        asked = [
            (offset, send_fetch(client, topic, partition, offset, isolation=1))
            for offset in [view.start, *middles[::every]]
        ]
        for offset, question in asked:
            yield question
            answer = question.response.responses[0].partitions[0]
            name = f"{topic.name}-{partition}: committed records from {offset}"
            if answer.error_code:
                raise Wrong(f"{name}: error {answer.error_code}")
            try:
                view.judge_read(offset, answer, list(read_batches(bytes(answer.records or b""))))
            except Wrong as error:
                raise Wrong(f"{name}: {error}") from error

    def _judge_told(self, client: Client) -> Action:
        """Compare DescribeTransactions and ListTransactions with each other and the model."""
        names = [each.name for each in self._slots]
        described = client.send(DESCRIBE, (names,))
        listed = client.send(LIST, ())
        yield described
        yield listed
        told = {each.transactional_id: each for each in described.response.transaction_states}
        states = {each[0]: each[1] for each in listed.response.transaction_states}
        due = {name: each.producer_id for name, each in told.items() if not each.error_code}
        if {name: states[name] for name in names if name in states} != due:
            raise Wrong(f"transactions are listed as {states} and described as {due}")
        for slot in self._slots:
            self._judge_described(slot, told[slot.name])

    def _judge_described(self, slot: Slot, told: Any) -> None:
        transaction, producer = slot.transaction, slot.producer
        if producer is None:
            return
        name = f"{slot.name} is described as {told}"
        if told.error_code:
            raise Wrong(name)
        if transaction is None:
            is_idle = told.transaction_state in {"Empty", "CompleteCommit", "CompleteAbort"}
            if self._is_sound and not is_idle:
                raise Wrong(f"{name}, although no transaction is open")
            return
        self._look()
        sure = {each for each, is_sure in transaction.partitions.items() if is_sure}
        must = sure - {_OF_OFFSETS}
        if transaction.may == [OPEN] and sure:
            found = {(each.topic, number) for each in told.topics for number in each.partitions}
            numbers = told.producer_id, told.producer_epoch
            if told.transaction_state != "Ongoing" or numbers != transaction.numbers:
                raise Wrong(f"{name}; {transaction} is open")
            may = {each for each in found if each[0] != OFFSETS_TOPIC}
            if not must <= found or not may <= set(transaction.partitions):
                raise Wrong(f"{name}; its partitions are {sorted(must)}")
        started_ms = max(transaction.last_ms + slot.timeout_ms, self._started_ms)
        is_late = self._history.now_ms > started_ms + _SLACK_MS
        if self._is_sound and is_late and told.transaction_state == "Ongoing":
            raise Wrong(f"{name}; it is open for longer than its time-out")
