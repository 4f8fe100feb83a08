"""Codes and epochs on the wire, one request after the other: what Apache Kafka answers, too."""

import struct
from collections.abc import Callable, Iterator
from datetime import timedelta
from socket import create_connection
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.storage.clock import Clock
from tests.clients.conftest import NewTopic, settle
from tests.support.batches import make_batch
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaBroker
from tests.support.kio_messages import encode, request
from tests.support.ports import address_of
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.client

Broker = SiltstoneProcess | KafkaBroker
E = ErrorCode
PRODUCE, COMMIT, OFFSET_FETCH, FIND, LIST_GROUPS = 0, 8, 9, 10, 16
INIT, ADD, END, STAGE, OFFSET_DELETE, DESCRIBE = 22, 24, 26, 28, 47, 65
LAST_EPOCH = 32_766
# Apache Kafka writes markers after its answer, and loads its topic after it has named its leader.
PASSING = {
    E.coordinator_load_in_progress,
    E.coordinator_not_available,
    E.not_coordinator,
    E.not_enough_replicas,
    E.concurrent_transactions,
}
MINUTE = timedelta(minutes=1)


def is_lasting(code: ErrorCode) -> bool:
    """Tell whether a code is an answer, and not that it is to be asked for again."""
    return code not in PASSING


def _offset(topic: str, offset: int) -> dict[str, Any]:
    row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return {"name": topic, "partitions": [row]}


class Wire:
    """A blocking connection that speaks in kio's entities, for one transactional id."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.socket = create_connection(address_of(broker.bootstrap), timeout=PATIENCE)
        self.topic = topic

    def ask(self, key: int, version: int, *, times: int = 1, **fields: Any) -> Any:
        """Return the answer to a request, the last one if it is sent several times at once."""
        wanted = request(key, version, **fields)
        flexible = b"\0" * type(wanted).__flexible__
        body = struct.pack(">hhih", key, version, 1, -1) + flexible + encode(wanted)
        self.socket.sendall((len(body).to_bytes(4) + body) * times)
        for _ in range(times):
            answer = self._receive(int.from_bytes(self._receive(4)))
        response: Any = load_response_schema(key, version)
        return entity_reader(response)(answer, 4 + len(flexible))[0]

    def ask_lastingly(self, what: str, code_of: Callable[[Any], ErrorCode], **said: Any) -> E:
        """Return the code of an answer that need not be asked for again."""
        return wait_until(
            lambda: code_of(self.ask(**said)), f"a lasting answer to {what}", is_lasting
        )

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def find_coordinator(self, kind: int = 1) -> None:
        """Ask for it until it exists: Apache Kafka makes its topic by that request only."""
        wait_until(
            lambda: self.ask(FIND, 4, key_type=kind, coordinator_keys=(self.topic,)).coordinators[
                0
            ],
            "a coordinator",
            lambda found: found.error_code is E.none,
        )

    def stage(
        self, producer: tuple[int, int], group: str, topic: str, offset: int = 50
    ) -> ErrorCode:
        """Return the code of TxnOffsetCommit of a group and partition 0."""
        return self.ask_lastingly(
            "TxnOffsetCommit",
            lambda answer: answer.topics[0].partitions[0].error_code,
            key=STAGE,
            version=5,
            transactional_id=self.topic,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[_offset(topic, offset)],
        )

    def commit(self, group: str, topic: str) -> ErrorCode:
        """Return the code of OffsetCommit of a group without members and partition 0."""
        return self.ask_lastingly(
            "OffsetCommit",
            lambda answer: answer.topics[0].partitions[0].error_code,
            key=COMMIT,
            version=8,
            group_id=group,
            topics=[_offset(topic, 7)],
        )

    def delete_offset(self, group: str, topic: str) -> ErrorCode:
        """Return the code of OffsetDelete of partition 0."""
        wanted = {"name": topic, "partitions": [{"partition_index": 0}]}
        answer = self.ask(OFFSET_DELETE, 0, group_id=group, topics=[wanted])
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def list_groups(self) -> dict[str, str]:
        """Return the state of each group, once all are known."""
        answer = wait_until(
            lambda: self.ask(LIST_GROUPS, 5, states_filter=(), types_filter=()),
            "a lasting answer to ListGroups",
            lambda answer: is_lasting(answer.error_code),
        )
        return {each.group_id: each.group_state for each in answer.groups}

    def committed(self, topic: str) -> int:
        """Return what a group has committed of its topic's partition 0, once that is certain."""
        group = {"group_id": topic, "topics": [{"name": topic, "partition_indexes": [0]}]}

        def ask() -> Any:
            answer = self.ask(OFFSET_FETCH, 8, groups=[group], require_stable=True).groups[0]
            return answer.topics[0].partitions[0] if answer.topics else answer

        found = wait_until(ask, "a committed offset", lambda each: each.error_code is E.none)
        offset: int = found.committed_offset
        return offset

    def init(
        self, version: int = 4, expected: tuple[int, int] | None = None, *, once: bool = False
    ) -> tuple[ErrorCode, int, int]:
        """Return code, producer id and epoch of InitProducerId."""
        fields: dict[str, Any] = {}
        if expected is not None:
            fields = {"producer_id": expected[0], "producer_epoch": expected[1]}
        answer = wait_until(
            lambda: self.ask(
                INIT, version, transactional_id=self.topic, transaction_timeout=MINUTE, **fields
            ),
            "a lasting answer to InitProducerId",
            lambda answer: once or is_lasting(answer.error_code),
        )
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def exhaust(self, timeout: timedelta) -> tuple[int, int]:
        """Return a producer in the last epoch in which one may write."""
        code, producer_id, epoch = self.init()
        while code is E.none and epoch < LAST_EPOCH:
            answer = self.ask(
                INIT,
                4,
                times=min(500, LAST_EPOCH - epoch),
                transactional_id=self.topic,
                transaction_timeout=timeout,
            )
            code, producer_id, epoch = answer.error_code, answer.producer_id, answer.producer_epoch
        assert code is E.none
        return producer_id, epoch

    def describe(self) -> tuple[str, int, int]:
        """Return state, producer id and epoch of DescribeTransactions."""
        (found,) = self.ask(DESCRIBE, 0, transactional_ids=(self.topic,)).transaction_states
        return found.transaction_state, found.producer_id, found.producer_epoch

    def begin(self) -> tuple[int, int]:
        """Return producer id and epoch, which must be given."""
        code, producer_id, epoch = self.init()
        assert code is E.none
        return producer_id, epoch

    def add(self, producer: tuple[int, int], version: int = 3) -> ErrorCode:
        """Return the code of AddPartitionsToTxn for partition 0."""

        def code_of(answer: Any) -> ErrorCode:
            (found,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            code: ErrorCode = found.partition_error_code
            return code

        return self.ask_lastingly(
            "AddPartitionsToTxn",
            code_of,
            key=ADD,
            version=version,
            v3_and_below_transactional_id=self.topic,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[{"name": self.topic, "partitions": [0]}],
        )

    def produce(self, producer: tuple[int, int], version: int = 12, sequence: int = 0) -> ErrorCode:
        """Return the code of Produce of one record to partition 0."""
        batch = make_batch(
            flags=TRANSACTIONAL,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            timestamp=Clock().now_ms(),
        )
        row = {"index": 0, "records": bytes(batch)}
        return self.ask_lastingly(
            "Produce",
            lambda answer: answer.responses[0].partition_responses[0].error_code,
            key=PRODUCE,
            version=version,
            transactional_id=self.topic,
            acks=-1,
            timeout=MINUTE,
            topic_data=[{"name": self.topic, "partition_data": [row]}],
        )

    def end(
        self, producer: tuple[int, int], version: int = 5, *, commit: bool = True
    ) -> tuple[ErrorCode, tuple[int, int] | None]:
        """Return the code of EndTxn, and how the producer goes on where it is told."""
        answer = wait_until(
            lambda: self.ask(
                END,
                version,
                transactional_id=self.topic,
                producer_id=producer[0],
                producer_epoch=producer[1],
                committed=commit,
            ),
            "a lasting answer to EndTxn",
            lambda answer: is_lasting(answer.error_code),
        )
        told = (answer.producer_id, answer.producer_epoch) if version >= 5 else None
        return answer.error_code, told


@pytest.fixture
def wire(broker: Broker, new_topic: NewTopic) -> Iterator[Wire]:
    """A connection, and a topic whose name is the transactional id, too."""
    made = Wire(broker, new_topic())
    made.find_coordinator()
    yield made
    made.socket.close()


def test_each_end_gives_the_next_epoch(wire: Wire) -> None:
    """transaction.version 2: retries are known, what is late is fenced, nothing can be aborted."""
    nobody = (-1, -1)
    producer_id, epoch = first = wire.begin()
    second, third = (producer_id, epoch + 1), (producer_id, epoch + 2)

    assert wire.produce(first) is E.none
    assert wire.end(first) == (E.none, second)
    assert wire.end(first) == (E.none, second)
    assert wire.end(first, commit=False) == (E.invalid_txn_state, nobody)
    assert wire.produce(first, sequence=1) is E.invalid_producer_epoch
    assert wire.end(second) == (E.invalid_txn_state, nobody)
    assert wire.end(second, commit=False) == (E.none, third)
    assert wire.end(second) == (E.invalid_txn_state, nobody)
    assert wire.produce(third) is E.none
    assert wire.end(first) == (E.producer_fenced, nobody)
    assert wire.end(third, commit=False) == (E.none, (producer_id, epoch + 3))


def test_older_clients_keep_their_epoch(wire: Wire) -> None:
    """Partitions are added first; the same end may come again; no batch opens a transaction."""
    producer = wire.begin()

    assert wire.produce(producer, version=10) is E.invalid_txn_state
    assert wire.produce(producer, version=11) is E.transaction_abortable
    assert wire.end(producer, version=4) == (E.invalid_txn_state, None)
    assert wire.add(producer) is E.none
    assert wire.add(producer) is E.none
    assert wire.produce(producer, version=11) is E.none
    assert wire.end(producer, version=4) == (E.none, None)
    assert wire.end(producer, version=3) == (E.none, None)
    assert wire.end(producer, version=4, commit=False) == (E.invalid_txn_state, None)
    assert wire.produce(producer, version=11, sequence=1) is E.transaction_abortable
    assert wire.add(producer, version=0) is E.none
    assert wire.produce(producer, version=9, sequence=1) is E.none
    assert wire.end(producer, version=0, commit=False) == (E.none, None)


def test_a_new_producer_fences_the_old(wire: Wire) -> None:
    """The first request aborts what is open, the second gets the epoch after the fencing one."""
    producer_id, epoch = old = wire.begin()
    wire.produce(old)

    assert wire.init(once=True) == (E.concurrent_transactions, -1, -1)
    assert wire.init() == (E.none, producer_id, epoch + 2)
    assert wire.produce(old, sequence=1) is E.invalid_producer_epoch
    assert wire.end(old, version=4) == (E.producer_fenced, None)
    assert wire.end(old, version=1) == (E.invalid_producer_epoch, None)
    assert wire.add(old, version=2) is E.producer_fenced
    assert wire.add(old, version=1) is E.invalid_producer_epoch
    assert wire.init(expected=old) == (E.producer_fenced, -1, -1)
    assert wire.init(version=3, expected=old) == (E.invalid_producer_epoch, -1, -1)


def test_a_producer_that_recovers(wire: Wire) -> None:
    """KIP-360: by the epoch that it has; sent again it gets the same; strangers are fenced."""
    producer_id, epoch = producer = wire.begin()

    assert wire.init(expected=producer) == (E.none, producer_id, epoch + 1)
    assert wire.init(expected=producer) == (E.none, producer_id, epoch + 1)
    assert wire.init(expected=(producer_id, epoch + 5)) == (E.producer_fenced, -1, -1)
    assert wire.init(expected=(producer_id + 1, epoch)) == (E.producer_fenced, -1, -1)
    assert wire.init(expected=(producer_id, -1)) == (E.invalid_request, -1, -1)


def test_ids_that_nobody_knows(wire: Wire) -> None:
    """A producer id of another, a transactional id that never was."""
    producer_id, epoch = wire.begin()
    stranger = (producer_id + 1_000_000, epoch)

    assert wire.produce(stranger) is E.invalid_producer_id_mapping
    assert wire.produce(stranger, version=11) is E.invalid_producer_id_mapping
    assert wire.add(stranger) is E.invalid_producer_id_mapping
    assert wire.end(stranger)[0] is E.invalid_producer_id_mapping
    wire.topic += "-unknown"
    assert wire.end((producer_id, epoch), version=4)[0] is E.invalid_producer_id_mapping


@pytest.mark.parametrize("first", [0, 1], ids=["older ends first", "newer ends first"])
def test_the_offset_that_was_written_last_counts(broker: Broker, wire: Wire, first: int) -> None:
    """Of two transactions with an offset of one partition, whichever of them ends first."""
    group = wire.topic
    wire.find_coordinator(0)
    other = Wire(broker, f"{group}-other")
    other.find_coordinator()
    ends = [(wire, wire.begin()), (other, other.begin())]
    for offset, (each, producer) in zip((50, 60), ends, strict=True):
        assert each.stage(producer, group, group, offset) is E.none
    for each, producer in (ends[first], ends[1 - first]):
        assert each.end(producer)[0] is E.none

    assert wire.committed(group) == 60
    other.socket.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_timed_out", [True, False], ids=["time-out", "InitProducerId"])
def test_the_producer_that_is_fenced_in_the_last_epoch(wire: Wire, is_timed_out: bool) -> None:
    """A new producer id with epoch 0 is what the old one is told, and what it goes on with."""
    timeout = timedelta(milliseconds=400) if is_timed_out else MINUTE
    old = wire.exhaust(timeout)
    assert wire.produce(old) is E.none
    if not is_timed_out:
        assert wire.init(once=True) == (E.concurrent_transactions, -1, -1)

    _, *described = wait_until(
        wire.describe, "the end of the transaction", lambda seen: seen[0] == "CompleteAbort"
    )
    new = (described[0], 0)

    assert new[0] != old[0]
    assert described[1] == 0
    assert wire.end(old, commit=False) == (E.none, new)
    assert wire.init(version=5, expected=old) == (E.none, *new)
    assert wire.init(expected=(old[0], old[1] + 1)) == (E.producer_fenced, -1, -1)
    assert wire.produce(new) is E.none
    assert wire.end(new) == (E.none, (new[0], 1))


@pytest.mark.slow
def test_groups_that_have_lost_their_only_offset(own_broker: Broker) -> None:
    """They are Empty, before a restart and after: until their offsets would expire."""
    own_broker.start()
    Confluent(own_broker.bootstrap).create("orders", 1, {})
    settle(own_broker, "orders", 1)
    wire, other = Wire(own_broker, "aborted"), Wire(own_broker, "staged")
    for each in (wire, other):
        each.find_coordinator(0)
        each.find_coordinator()
    assert wire.commit("deleted", "orders") is E.none
    assert wire.delete_offset("deleted", "orders") is E.none
    producer = wire.begin()
    assert wire.stage(producer, "aborted", "orders") is E.none
    assert wire.end(producer, commit=False)[0] is E.none
    assert other.stage(other.begin(), "staged", "orders") is E.none
    seen = [wire.list_groups()]
    for _ in range(2):
        wire.socket.close()
        other.socket.close()
        own_broker.restart()
        wire, other = Wire(own_broker, "aborted"), Wire(own_broker, "staged")
        other.find_coordinator()
        other.begin()  # aborts what is open
        seen.append(wait_until(wire.list_groups, "all groups", lambda each: len(each) >= 3))

    assert seen == [dict.fromkeys(("aborted", "deleted", "staged"), "Empty")] * 3
    wire.socket.close()
    other.socket.close()
