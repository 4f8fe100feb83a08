"""Stock consumers beside a running cleaner: no key goes back, none is lost, no gap stops them."""

import random
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import Message as Delivered
from confluent_kafka import TopicPartition as Partition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from siltstone.cleaner.history.history import read_history
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.folders import segments
from tests.support.ports import address_of
from tests.support.waiting import PATIENCE, equals, wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(180)]

TOPIC = "prices"
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.segment.bytes": "20000",
    "log.segment.delete.delay.ms": "0",
    "log.cleaner.delete.retention.ms": "3600000",
}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
ONLY_ASKED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1",
    "segment.bytes": "16000000",
    "max.message.bytes": "2000000",
}
KEYS = 40
ROUNDS = 15
PASSES = 20

Record = tuple[int, bytes, bytes | None]  # offset, key, value


class Reader(ABC):
    """Reads the topic from 0 to its end, again and again, in a thread of its own."""

    def __init__(self, bootstrap: str, acknowledged: dict[bytes, int]) -> None:
        self.bootstrap = bootstrap
        self.acknowledged = acknowledged  # key -> offset of its last record that was acknowledged
        self.rounds = 0
        self.failure: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @abstractmethod
    def rewind(self) -> None:
        """Go to offset 0."""

    @abstractmethod
    def end(self) -> int:
        """Ask the broker for the end offset."""

    @abstractmethod
    def poll(self) -> list[Record]:
        """Return the next records, no record if they did not come in time."""

    @abstractmethod
    def close(self) -> None:
        """Close the consumer."""

    def stop(self) -> None:
        """End after the round at hand."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._read_once()
                self.rounds += 1
        except BaseException as error:  # noqa: BLE001  # told by the test's thread
            self.failure = error
        finally:
            self.close()

    def _read(self) -> Iterator[Record]:
        """Yield each record, until there are no more.

        The end that there was at first is not enough: what was last of its key then may be
        superseded by what came later, and gone.
        """
        self.rewind()
        offset, end = -1, self.end()
        while offset < end - 1:
            records = self.poll()
            assert records, f"nothing comes after offset {offset} of {end}"
            yield from records
            offset = records[-1][0]
            if offset >= end - 1:
                end = self.end()

    def _read_once(self) -> None:
        expected = dict(self.acknowledged)
        newest: dict[bytes, int] = {}
        values: dict[bytes, bytes] = {}
        last = -1
        for offset, key, value in self._read():
            assert offset > last, f"offset {offset} came after {last}"
            if value is not None:
                assert value > values.get(key, b""), f"{key!r} went back at offset {offset}"
                assert value.endswith(key), f"offset {offset} has the value of another key"
                values[key] = value
            newest[key] = last = offset
        lost = [key for key, offset in expected.items() if newest.get(key, -1) < offset]
        assert lost == [], f"the last records of {lost} were missing"


class ConfluentReader(Reader):
    """librdkafka."""

    def __init__(self, bootstrap: str, acknowledged: dict[bytes, int]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.message.max.bytes": 4000,
                "fetch.wait.max.ms": 20,
            }
        )
        super().__init__(bootstrap, acknowledged)

    def rewind(self) -> None:
        """Go to offset 0."""
        self._consumer.assign([Partition(TOPIC, 0, 0)])

    def end(self) -> int:
        """Ask the broker for the end offset; again if the client let go of the one that it asked.

        It does so with the address that it began with once it knows the broker's id.
        """

        def bounds() -> tuple[int, int] | None:
            try:
                return self._consumer.get_watermark_offsets(
                    Partition(TOPIC, 0), PATIENCE, cached=False
                )
            except KafkaException as error:
                if error.args[0].name() != "_DESTROY_BROKER":
                    raise
                return None

        found = wait_until(
            bounds, "the bounds of the partition from a client that keeps its broker"
        )
        assert found is not None
        return found[1]

    def poll(self) -> list[Record]:
        """Return the next record."""
        message = self._consumer.poll(PATIENCE)
        if message is None:
            return []
        if (fault := message.error()) is not None:
            raise KafkaException(fault)
        offset, key = message.offset(), message.key()
        assert offset is not None
        assert key is not None
        return [(offset, key, message.value())]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class KafkaPythonReader(Reader):
    """kafka-python."""

    def __init__(self, bootstrap: str, acknowledged: dict[bytes, int]) -> None:
        self._partition = PythonPartition(TOPIC, 0)
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_partition_fetch_bytes=4000,
            fetch_max_wait_ms=20,
        )
        self._consumer.assign([self._partition])
        super().__init__(bootstrap, acknowledged)

    def rewind(self) -> None:
        """Go to offset 0."""
        self._consumer.seek(self._partition, 0)

    def end(self) -> int:
        """Ask the broker for the end offset."""
        found: dict[PythonPartition, int] = self._consumer.end_offsets([self._partition])
        return found[self._partition]

    def poll(self) -> list[Record]:
        """Return the next records."""
        polled = self._consumer.poll(timeout_ms=PATIENCE * 1000)
        return [(each.offset, each.key, each.value) for each in polled.get(self._partition, [])]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def write(producer: Producer, chance: random.Random, acknowledged: dict[bytes, int]) -> None:
    """Have some more records acknowledged: values that grow, and tombstones."""

    def delivered(fault: object, message: Delivered) -> None:
        key, offset = message.key(), message.offset()
        assert fault is None
        assert isinstance(key, bytes)
        assert offset is not None
        acknowledged[key] = offset

    for _ in range(100):
        key = b"key-%d" % chance.randrange(KEYS)
        value = None if chance.random() < 0.1 else b"%020d" % time.monotonic_ns() + b"." * 80 + key
        producer.produce(TOPIC, key=key, value=value, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE) == 0


def passes(broker: SiltstoneProcess) -> int:
    """Return how many passes have ended well."""
    return sum(event.get("outcome") == "cleaned" for event in read_history(broker.folder))


@pytest.fixture
def broker(siltstone: SiltstoneProcess) -> SiltstoneProcess:
    """A broker whose cleaner hardly rests, with a compacted topic."""
    siltstone.settings.update(SETTINGS)
    siltstone.start()
    Confluent(siltstone.bootstrap).create(TOPIC, 1, COMPACTED)
    return siltstone


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_readers_beside_a_cleaner(broker: SiltstoneProcess, codec: str) -> None:
    """Each round of each reader has the last record of every key that was acknowledged before."""
    chance = random.Random(7)
    acknowledged: dict[bytes, int] = {}
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": codec,
            "batch.num.messages": 10,
            "linger.ms": 5,
        }
    )
    write(producer, chance, acknowledged)
    readers = [
        kind(broker.bootstrap, acknowledged) for kind in (ConfluentReader, KafkaPythonReader)
    ]
    written = -1

    def is_enough() -> bool:
        """Tell whether the readers and the cleaner are done; write more if not."""
        nonlocal written
        rounds = [reader.rounds for reader in readers]
        if any(reader.failure for reader in readers):
            return True
        if min(rounds) >= ROUNDS and passes(broker) >= PASSES:
            return True
        if max(rounds) > written:  # nobody has to run after the end for ever
            written = max(rounds)
            write(producer, chance, acknowledged)
        return False

    try:
        wait_until(is_enough, f"{ROUNDS} rounds of each reader and {PASSES} passes", timeout=120)
    finally:
        for reader in readers:
            reader.stop()

    assert [reader.failure for reader in readers] == [None, None]
    assert min(reader.rounds for reader in readers) >= ROUNDS
    assert passes(broker) >= PASSES


def test_answer_in_flight_is_whole_when_its_segment_goes(broker: SiltstoneProcess) -> None:
    """A slow reader gets the old bytes to the last one, though their file has been unlinked."""
    client = Confluent(broker.bootstrap)
    big = "bigger"
    client.create(big, 1, ONLY_ASKED)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2_000_000})
    filler = random.Random(1).randbytes(1_000_000)
    for number in range(17):
        producer.produce(big, key=b"key-%d" % (number % 2), value=filler, partition=0)
        assert producer.flush(PATIENCE) == 0
    folder = broker.folder / f"{big}-0"
    old = segments(folder)[0]
    before = old.read_bytes()
    identity = old.stat().st_ino
    with old.open("rb") as held, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(address_of(broker.bootstrap))
        slow.settimeout(PATIENCE)
        slow.sendall(fetch_frame(big, 64_000_000))
        head = receive(slow, 4)
        size = int.from_bytes(head, "big")
        assert size > 14_000_000
        assert broker.run("clean", big, "--wait").returncode == 0
        wait_until(partial(held_links, held.fileno()), "no link of the old segment", equals(0))
        answer = receive(slow, size)

    assert not [each for each in folder.iterdir() if each.stat().st_ino == identity]
    records = answer[-len(before) :]
    assert records == before
    assert client.read(big, 0, 1)[0].offset > 0


def fetch_frame(topic: str, most: int) -> bytes:
    """Return a Fetch of version 4 from offset 0 of partition 0."""
    name = topic.encode()
    body = struct.pack(">hhih4siiiib", 1, 4, 1, 4, b"slow", -1, 1000, 1, most, 0)
    body += struct.pack(f">ih{len(name)}siiqi", 1, len(name), name, 1, 0, 0, most)
    return len(body).to_bytes(4, "big") + body


def receive(sock: socket.socket, size: int) -> bytes:
    """Return exactly so many bytes."""
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(1 << 16, size - len(data)))
        assert part, f"the broker closed after {len(data)} of {size} bytes"
        data += part
    return bytes(data)


def held_links(fd: int) -> int:
    """Return how many names an open file still has."""
    return Path(f"/proc/self/fd/{fd}").stat().st_nlink
