"""Groups in the classic protocol, by the clients and tools that speak it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer

from tests.clients.conftest import settle
from tests.support import produced
from tests.support.clients.confluent import Confluent
from tests.support.formatters import read_formatted
from tests.support.kafka import KafkaTools, group_rows
from tests.support.members import poll_assigned
from tests.support.oracle import Broker, serving
from tests.support.waiting import equals, give_turns_until, wait_until

pytestmark = pytest.mark.client

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PARTITIONS = 4
QUICK = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def quick_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker whose empty groups do not wait for more members."""
    with serving(request, tmp_path_factory.mktemp("classic"), QUICK) as running:
        yield running


@pytest.fixture
def topic(quick_broker: Broker, topic_name: str) -> str:
    """A topic of the test's own; its group has the same name."""
    Confluent(quick_broker.bootstrap).create(topic_name, PARTITIONS, {})
    settle(quick_broker, topic_name, PARTITIONS)
    return topic_name


def produce(broker: Broker, topic: str, first: int, last: int) -> None:
    """Write the numbers from `first` to `last` - 1, to one partition after the other."""
    numbers = range(first, last)
    records = [{"value": str(each), "partition": each % PARTITIONS} for each in numbers]
    produced.produce(broker.bootstrap, topic, records)


@pytest.fixture
def ask(quick_broker: Broker, kafka_tools: KafkaTools) -> Callable[..., str]:
    """kafka-consumer-groups on the broker."""

    def run(*options: str) -> str:
        return kafka_tools.run(GROUPS, "--bootstrap-server", quick_broker.bootstrap, *options)

    return run


@pytest.mark.java
def test_the_console_consumer_reads_in_a_group(
    quick_broker: Broker, kafka_tools: KafkaTools, topic: str
) -> None:
    """From the beginning the first time; where it left off the next."""
    produce(quick_broker, topic, 0, 20)
    command = [
        "--bootstrap-server", quick_broker.bootstrap, "--topic", topic, "--group", topic,
        "--from-beginning",
    ]  # fmt: skip

    first = kafka_tools.run(CONSOLE, *command, "--max-messages", "20").split()
    produce(quick_broker, topic, 20, 24)
    second = kafka_tools.run(CONSOLE, *command, "--max-messages", "4").split()

    assert sorted(map(int, first)) == list(range(20))
    assert sorted(map(int, second)) == [20, 21, 22, 23]


@pytest.mark.java
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", "7"], 7),
        (["--shift-by", "-2"], 3),
        (["--shift-by", "100"], 10),
        (["--to-current"], 5),
        (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
        (["--by-duration", "PT0S"], 10),
        (["--from-file"], 4),
    ],
    ids=lambda value: value[0].strip("-") + str(value[1:]) if isinstance(value, list) else None,
)
def test_offsets_are_reset_in_every_mode(
    quick_broker: Broker,
    topic: str,
    ask: Callable[..., str],
    tmp_path: Any,
    mode: list[str],
    expected: int,
) -> None:
    """kafka-consumer-groups --reset-offsets commits for a group without members."""
    produce(quick_broker, topic, 0, 10 * PARTITIONS)
    consumer = Consumer({"bootstrap.servers": quick_broker.bootstrap, "group.id": topic})
    consumer.commit(
        offsets=[ConfluentPartition(topic, index, 5) for index in range(PARTITIONS)],
        asynchronous=False,
    )
    scope = ["--topic", topic]
    if mode == ["--from-file"]:
        plan = tmp_path / "plan.csv"
        plan.write_text("".join(f"{topic},{index},4\n" for index in range(PARTITIONS)))
        mode, scope = ["--from-file", str(plan)], []

    said = group_rows(ask("--reset-offsets", "--execute", "--group", topic, *scope, *mode))

    assert {row["NEW-OFFSET"] for row in said} == {str(expected)}
    wanted = [ConfluentPartition(topic, index) for index in range(PARTITIONS)]
    committed = consumer.committed(wanted, timeout=30)
    consumer.close()
    assert {each.offset for each in committed} == {expected}


@pytest.mark.java
def test_a_group_is_shown(quick_broker: Broker, topic: str, ask: Callable[..., str]) -> None:
    """State, members and lag; what its members read is not deleted."""
    produce(quick_broker, topic, 0, 8)
    member = Consumer(
        {
            "bootstrap.servers": quick_broker.bootstrap,
            "group.id": topic,
            "client.id": "me",
            "group.instance.id": "one",
        }
    )
    member.subscribe([topic])
    wait_until(partial(poll_assigned, member), "all partitions", equals(PARTITIONS))
    member.commit(offsets=[ConfluentPartition(topic, 0, 1)], asynchronous=False)

    state = group_rows(ask("--describe", "--group", topic, "--state"))[0]
    assert state["STATE"] == "Stable"
    assert state["#MEMBERS"] == "1"
    assert state["ASSIGNMENT-STRATEGY"] == "range"
    shown = group_rows(ask("--describe", "--group", topic, "--members", "--verbose"))[0]
    assert (shown["CLIENT-ID"], shown["GROUP-INSTANCE-ID"]) == ("me", "one")
    assert shown["HOST"] == "/127.0.0.1"
    assert shown["#PARTITIONS"] == str(PARTITIONS)
    lag = {row["PARTITION"]: row["LAG"] for row in group_rows(ask("--describe", "--group", topic))}
    assert lag["0"] == "1"
    assert "subscribed" in ask("--delete-offsets", "--group", topic, "--topic", topic)
    member.close()


@pytest.mark.java
def test_a_group_is_deleted(quick_broker: Broker, topic: str, ask: Callable[..., str]) -> None:
    """Some of its offsets first, then all of it."""
    consumer = Consumer({"bootstrap.servers": quick_broker.bootstrap, "group.id": topic})
    both = [ConfluentPartition(topic, index, 0) for index in (0, 1)]
    consumer.commit(offsets=both, asynchronous=False)

    said = ask("--delete-offsets", "--group", topic, "--topic", f"{topic}:0")
    left = [each.offset for each in consumer.committed(both, timeout=30)]
    deleted = ask("--delete", "--group", topic)
    gone = [each.offset for each in consumer.committed(both, timeout=30)]
    consumer.close()

    assert "Successful" in said
    assert left == [-1001, 0]
    assert "was successful" in deleted
    assert gone == [-1001, -1001]


@pytest.mark.java
def test_kafkas_formatters_read_the_offsets_topic(
    quick_broker: Broker, kafka_tools: KafkaTools, topic: str
) -> None:
    """kafka-console-consumer --formatter prints committed offsets and groups."""
    produce(quick_broker, topic, 0, 4)
    member = Consumer(
        {
            "bootstrap.servers": quick_broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([topic])
    seen: list[Message] = []

    def poll() -> int:
        message = member.poll(0.05)
        if message is not None and message.error() is None:
            seen.append(message)
        return len(seen)

    wait_until(poll, "4 records", equals(4))
    member.commit(offsets=[ConfluentPartition(topic, 2, 1, metadata="mine")], asynchronous=False)
    member.close()

    def read(formatter: str) -> list[dict[str, Any]]:
        return read_formatted(
            kafka_tools,
            quick_broker.bootstrap,
            "__consumer_offsets",
            formatter,
            lambda record: record["key"]["data"]["group"] == topic,
        )

    (committed,) = read("Offsets")
    assert committed["key"] == {"type": 1, "data": {"group": topic, "topic": topic, "partition": 2}}
    assert committed["value"]["data"]["offset"] == 1
    assert committed["value"]["data"]["metadata"].rstrip("\0") == "mine"  # confluent-kafka's
    groups = read("GroupMetadata")
    assert {each["key"]["type"] for each in groups} == {2}
    stable = next(each["value"]["data"] for each in groups if each["value"]["data"]["members"])
    assert stable["protocolType"] == "consumer"
    assert stable["protocol"] == "range"
    assert stable["members"][0]["clientHost"] == "/127.0.0.1"
    assert not groups[-1]["value"]["data"]["members"]


class Cooperative:
    """Members of one group that commit each record they read."""

    def __init__(self, broker: Broker, topic: str, stack: ExitStack) -> None:
        self.seen: set[int] = set()
        self.members: list[Consumer] = []
        self._stack = stack
        self._topic = topic
        self._config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "partition.assignment.strategy": "cooperative-sticky",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
        }

    def join(self) -> None:
        """Have one more member."""
        member = Consumer(self._config)
        self._stack.callback(member.close)
        member.subscribe([self._topic])
        self.members.append(member)

    def leave(self) -> None:
        """Have the oldest member go."""
        self.members.pop(0).close()

    def read_until(self, last: int) -> None:
        """Poll until the partitions are shared evenly and so many records are read."""
        each, more = divmod(PARTITIONS, len(self.members))
        wanted = sorted([each] * (len(self.members) - more) + [each + 1] * more)

        def poll() -> tuple[list[int], int]:
            for member in self.members:
                self._poll(member)
            return sorted(len(member.assignment()) for member in self.members), len(self.seen)

        wait_until(poll, f"shares of {wanted} and {last} records", equals((wanted, last)))

    def _poll(self, member: Consumer) -> None:
        message = member.poll(0.02)
        if message is not None and message.error() is None:
            self.seen.add(int(message.value() or b""))
            # Nobody waits for it: it is answered behind a join that others in this thread hold up.
            member.commit(message=message, asynchronous=True)


@pytest.mark.slow
def test_cooperative_members_come_and_go(quick_broker: Broker, topic: str) -> None:
    """Incremental rebalances of librdkafka: every record is read, by whichever members."""
    with ExitStack() as stack:
        group = Cooperative(quick_broker, topic, stack)
        changes = (group.join, group.join, group.join, group.leave, group.leave)
        for step, change in enumerate(changes, 1):
            change()
            produce(quick_broker, topic, 20 * step - 20, 20 * step)
            group.read_until(20 * step)

    assert group.seen == set(range(100))


class KafkaPythonGroup:
    """Members one after the other, which commit what they have read."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.seen: list[int] = []
        self._broker = broker
        self._topic = topic

    def read_until(self, count: int) -> None:
        """Have a member join, read until so many records are seen, and leave."""
        member = KafkaConsumer(
            bootstrap_servers=self._broker.bootstrap,
            group_id=self._topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )
        with closing(member):
            # A leader that knows no partitions yet assigns none.
            partitions = partial(member.partitions_for_topic, self._topic)
            wait_until(partitions, f"partitions of {self._topic}")
            member.subscribe([self._topic])
            wait_until(
                partial(self._poll, member), f"{count} records", lambda seen: len(seen) >= count
            )
            member.commit()

    def _poll(self, member: KafkaConsumer) -> list[int]:
        for records in member.poll(timeout_ms=50).values():
            self.seen.extend(int(record.value) for record in records)
        return self.seen


def test_a_kafka_python_member_takes_over(quick_broker: Broker, topic: str) -> None:
    """The second one begins where the first one has committed."""
    group = KafkaPythonGroup(quick_broker, topic)
    produce(quick_broker, topic, 0, 40)
    group.read_until(40)
    produce(quick_broker, topic, 40, 44)
    group.read_until(44)

    assert sorted(group.seen) == list(range(44))


async def test_aiokafka_members_share(quick_broker: Broker, topic: str) -> None:
    """Two members with round robin: each has half, then one has all."""
    await asyncio.to_thread(produce, quick_broker, topic, 0, 40)
    async with AsyncExitStack() as stack:

        async def join() -> AIOKafkaConsumer:
            member = AIOKafkaConsumer(
                topic,
                bootstrap_servers=quick_broker.bootstrap,
                group_id=topic,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=200,
                session_timeout_ms=6000,
                partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            )
            await member.start()
            stack.push_async_callback(member.stop)
            return member

        seen: set[int] = set()

        async def poll(*members: AIOKafkaConsumer) -> tuple[list[int], int]:
            for member in members:
                for records in (await member.getmany(timeout_ms=20)).values():
                    seen.update(int(record.value) for record in records)
            return [len(member.assignment()) for member in members], len(seen)

        first = await join()
        second_start = asyncio.create_task(join())
        while not second_start.done():
            await poll(first)
        second = await second_start
        await give_turns_until(
            partial(poll, first, second), "two halves and 40 records", equals(([2, 2], 40))
        )
        for member in (first, second):
            await member.commit()
        await second.stop()
        await give_turns_until(
            partial(poll, first), "all partitions", lambda seen: seen[0] == [PARTITIONS]
        )
        await asyncio.to_thread(produce, quick_broker, topic, 40, 44)
        await give_turns_until(partial(poll, first), "44 records", lambda seen: seen[1] >= 44)

    assert seen == set(range(44))
