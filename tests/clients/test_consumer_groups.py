"""Groups of the consumer protocol (KIP-848), by the clients and tools that speak it."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.conftest import settle
from tests.support import produced
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaTools, group_rows
from tests.support.oracle import Broker, serving
from tests.support.waiting import equals, wait_until

pytestmark = pytest.mark.client

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
PARTITIONS = 4
QUICK = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture(scope="module")
def quick_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that wants heartbeats often, so that groups settle quickly."""
    with serving(request, tmp_path_factory.mktemp("quick"), QUICK) as running:
        yield running


class Group:
    """One group and one topic of a test, and members of it that confluent-kafka runs.

    ``seen`` is partition and offset of every record that any member has read since `read`.
    """

    def __init__(self, broker: Broker, name: str, stack: ExitStack) -> None:
        self.broker = broker
        self.name = name
        self.seen: set[tuple[int, int]] = set()
        self._stack = stack
        Confluent(broker.bootstrap).create(name, PARTITIONS, {})
        settle(broker, name, PARTITIONS)

    def produce(self, count: int) -> None:
        """Write so many records to each partition."""
        numbers = range(count * PARTITIONS)
        records = [{"value": str(each), "partition": each % PARTITIONS} for each in numbers]
        produced.produce(self.broker.bootstrap, self.name, records)

    def join(self, protocol: str = "consumer", **config: str) -> Consumer:
        """Have a member subscribe."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        if protocol == "classic":
            settings = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "200"} | settings
        member = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": self.name,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self._stack.callback(member.close)
        member.subscribe([self.name])
        return member

    def settle(self, *members: Consumer) -> list[set[int]]:
        """Poll members until they share all partitions evenly; return the partitions of each."""
        size = PARTITIONS // len(members)

        def poll() -> list[set[int]]:
            self._poll(members)
            return [{each.partition for each in member.assignment()} for member in members]

        def are_even(shares: list[set[int]]) -> bool:
            together = len(set.union(*shares))
            return together == size * len(members) == sum(map(len, shares)) and all(
                len(share) == size for share in shares
            )

        return wait_until(poll, f"even shares of {self.name}", are_even)

    def read(self, start: int, stop: int, *members: Consumer) -> None:
        """Poll members until they have seen these offsets of each partition, and no others.

        An eager member begins again at what is committed whenever the group rebalances, so it may
        see a record again before it has committed. The members stand behind all of them at the end:
        a slow machine may have the group rebalance on the way.
        """
        wanted = {(p, o) for p in range(PARTITIONS) for o in range(start, stop)}

        def poll() -> tuple[bool, list[int]]:
            self._poll(members)
            assigned = [member.position(member.assignment()) for member in members]
            return self.seen >= wanted, [each.offset for some in assigned for each in some]

        everywhere = [stop] * PARTITIONS
        wait_until(poll, f"offsets {start} to {stop}", equals((True, everywhere)))
        assert self.seen == wanted
        self.seen.clear()

    def _poll(self, members: Sequence[Consumer]) -> None:
        for member in members:
            message = member.poll(0.02)
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.seen.add((partition, offset))


@pytest.fixture
def new_group(quick_broker: Broker, topic_name: str) -> Iterator[Callable[[], Group]]:
    """A function that makes the test's group and topic; its members are closed at the end."""
    with ExitStack() as stack:
        yield lambda: Group(quick_broker, topic_name, stack)


def test_members_share_and_take_over(new_group: Callable[[], Group]) -> None:
    """Two halves, then everything for the one that stays; what was committed is not read again."""
    group = new_group()
    first, second = group.join(), group.join()
    group.settle(first, second)
    group.produce(10)
    group.read(0, 10, first, second)
    for member in (first, second):
        member.commit(asynchronous=False)

    second.close()
    assert group.settle(first) == [{0, 1, 2, 3}]
    group.produce(1)

    group.read(10, 11, first)


def test_a_stranger_may_not_commit(new_group: Callable[[], Group]) -> None:
    """While the group has members only those may say how far it has come."""
    group = new_group()
    group.produce(1)
    member = group.join()
    group.settle(member)
    other = Consumer({"bootstrap.servers": group.broker.bootstrap, "group.id": group.name})

    with pytest.raises(KafkaException) as refusal:
        other.commit(offsets=[TopicPartition(group.name, 0, 1)], asynchronous=False)
    other.close()

    assert refusal.value.args[0].name() == "UNKNOWN_MEMBER_ID"


def test_a_static_member_keeps_its_place(new_group: Callable[[], Group]) -> None:
    """It goes and comes back, and has what it had; the other one never moves."""
    group = new_group()
    static, other = group.join(group_instance_id="one"), group.join()
    before = group.settle(static, other)

    static.close()
    again = group.join(group_instance_id="one")

    assert group.settle(again, other) == before


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_goes_up_and_down_while_it_is_read(
    new_group: Callable[[], Group], strategy: str
) -> None:
    """Classic members, one of the new protocol beside them, then classic ones again.

    Members commit before somebody comes or goes, so nothing is lost and nothing is read twice.
    (librdkafka's cooperative-sticky leader writes data of its own into assignments, and a group
    with such data is not taken along, by Kafka neither.)
    """
    group = new_group()
    first = group.join("classic", partition_assignment_strategy=strategy)
    second = group.join("classic", partition_assignment_strategy=strategy)
    group.settle(first, second)
    group.produce(5)
    group.read(0, 5, first, second)

    for member in (first, second):
        member.commit(asynchronous=False)
    second.close()
    new = group.join()
    group.settle(first, new)
    group.produce(5)
    group.read(5, 10, first, new)

    for member in (first, new):
        member.commit(asynchronous=False)
    new.close()
    third = group.join("classic", partition_assignment_strategy=strategy)
    group.settle(first, third)
    group.produce(5)
    group.read(10, 15, first, third)


@pytest.mark.java
def test_the_console_consumer_reads_in_a_group(
    new_group: Callable[[], Group], kafka_tools: KafkaTools
) -> None:
    """`--group` with group.protocol=consumer reads everything once and commits it."""
    group = new_group()
    group.produce(5)
    command = [
        "--bootstrap-server", group.broker.bootstrap, "--topic", group.name, "--group", group.name,
        "--command-property", "group.protocol=consumer", "--from-beginning",
    ]  # fmt: skip

    first = kafka_tools.run(CONSOLE, *command, "--max-messages", "20").split()
    group.produce(1)
    second = kafka_tools.run(CONSOLE, *command, "--max-messages", "4").split()

    assert sorted(map(int, first)) == list(range(20))
    assert sorted(map(int, second)) == [0, 1, 2, 3]


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_verifiable_consumer(
    new_group: Callable[[], Group], kafka_tools: KafkaTools, protocol: str
) -> None:
    """Kafka's own test consumer sees every offset in order, and commits what it saw."""
    group = new_group()
    group.produce(25)

    printed = kafka_tools.run(
        "VerifiableConsumer", "--bootstrap-server", group.broker.bootstrap,
        "--topic", group.name, "--group-id", group.name, "--group-protocol", protocol,
        "--reset-policy", "earliest", "--max-messages", "100",
    )  # fmt: skip

    events = [json.loads(line) for line in printed.splitlines()]
    assigned = [each for each in events if each["name"] == "partitions_assigned"]
    assert len(assigned[-1]["partitions"]) == PARTITIONS
    consumed = [each for each in events if each["name"] == "records_consumed"]
    assert sum(each["count"] for each in consumed) == 100
    commits = [each for each in events if each["name"] == "offsets_committed"]
    assert all(each["success"] for each in commits)
    reached = {o["partition"]: o["offset"] for each in commits for o in each["offsets"]}
    assert reached == dict.fromkeys(range(PARTITIONS), 25)


@pytest.mark.java
def test_kafka_consumer_groups_describes_both_types(
    new_group: Callable[[], Group], kafka_tools: KafkaTools
) -> None:
    """Lag, members, state and type, of a group that goes from one protocol to the other."""
    group = new_group()
    group.produce(2)

    def ask(*options: str) -> str:
        return kafka_tools.run(GROUPS, "--bootstrap-server", group.broker.bootstrap, *options)

    for protocol in ("classic", "consumer"):
        member = group.join(protocol)
        group.settle(member)
        ones = [TopicPartition(group.name, partition, 1) for partition in range(PARTITIONS)]
        member.commit(offsets=ones, asynchronous=False)
        rows = group_rows(ask("--describe", "--group", group.name))
        assert {row["LAG"] for row in rows} == {"1"}
        assert sorted(row["PARTITION"] for row in rows) == list("0123")
        if protocol == "consumer":
            members = group_rows(ask("--describe", "--group", group.name, "--members", "--verbose"))
            assert [row["#PARTITIONS"] for row in members] == ["4"]
            state = group_rows(ask("--describe", "--group", group.name, "--state"))
            assert "Stable" in state[0].values()
        member.close()

    assert group.name in ask("--list", "--type", "consumer").split()
    said = ask(
        "--reset-offsets", "--to-earliest", "--execute", "--topic", group.name,
        "--group", group.name,
    )  # fmt: skip
    assert {row["NEW-OFFSET"] for row in group_rows(said)} == {"0"}
    assert "was successful" in ask("--delete", "--group", group.name)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_killed_broker_forgets_no_commit_and_no_member(own_broker: Broker, protocol: str) -> None:
    """SIGKILL after a commit was answered: members go on, with their partitions, from there."""
    # Long sessions: a start that takes its time on a busy machine is no reason to be fenced.
    own_broker.settings |= QUICK | {"group.consumer.session.timeout.ms": "30000"}
    patient = {"session_timeout_ms": "30000"} if protocol == "classic" else {}
    own_broker.start()
    with ExitStack() as stack:
        group = Group(own_broker, f"killed-{protocol}", stack)
        members = [group.join(protocol, **patient), group.join(protocol, **patient)]
        before = group.settle(*members)
        group.produce(5)
        group.read(0, 5, *members)
        for member in members:
            member.commit(asynchronous=False)

        own_broker.kill()
        own_broker.start()

        assert group.settle(*members) == before
        group.produce(1)
        group.read(5, 6, *members)
        for member in members:
            member.commit(asynchronous=False)
            member.close()
        late = group.join(protocol)
        partitions = [TopicPartition(group.name, partition) for partition in range(PARTITIONS)]
        assert {each.offset for each in late.committed(partitions, timeout=30)} == {6}


@pytest.mark.java
def test_kafka_configs_alters_and_describes_a_group(
    quick_broker: Broker, kafka_tools: KafkaTools, topic_name: str
) -> None:
    """The group's own value, from DYNAMIC_GROUP_CONFIG, before the broker's; no group is needed."""
    command = [
        "--bootstrap-server", quick_broker.bootstrap, "--entity-type", "groups",
        "--entity-name", topic_name,
    ]  # fmt: skip

    kafka_tools.run(
        CONFIGS, *command, "--alter", "--add-config", "consumer.session.timeout.ms=7000"
    )
    described = kafka_tools.run(CONFIGS, *command, "--describe")

    assert (
        "consumer.session.timeout.ms=7000 sensitive=false synonyms={"
        "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=7000, "
        "STATIC_BROKER_CONFIG:group.consumer.session.timeout.ms=6000, "
        "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}"
    ) in described
