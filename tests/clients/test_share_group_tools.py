"""kafka-share-groups, kafka-groups and kafka-console-share-consumer, as people type them."""

import re

import pytest

from tests.clients.conftest import NewTopic
from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaBroker, KafkaTools, group_rows
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow]

Broker = SiltstoneProcess | KafkaBroker
SHARE_GROUPS = "consumer.group.ShareGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


class Typed:
    """The tools, typed for one group of one broker."""

    def __init__(self, broker: Broker, tools: KafkaTools, group: str) -> None:
        self._at = ("--bootstrap-server", broker.bootstrap)
        self._tools = tools
        self.group = group

    def groups(self, *words: str) -> str:
        """Run kafka-share-groups."""
        return self._tools.run(SHARE_GROUPS, *self._at, *words)

    def of_group(self, *words: str) -> str:
        """Run kafka-share-groups for the group."""
        return self.groups("--group", self.group, *words)

    def list_groups(self, *words: str) -> str:
        """Run kafka-groups."""
        return self._tools.run("GroupsCommand", *self._at, "--list", *words)

    def offsets(self) -> dict[str, tuple[str, str]]:
        """Return start offset and lag by partition."""
        printed = self.of_group("--describe", "--offsets", "--verbose")
        rows = group_rows(printed) if "GROUP" in printed else []
        return {row["PARTITION"]: (row["START-OFFSET"], row["LAG"]) for row in rows}

    def produce(self, topic: str, count: int) -> None:
        """Write records."""
        lines = "".join(f"record {number}\n" for number in range(count))
        self._tools.run("ConsoleProducer", *self._at, "--topic", topic, stdin=lines)

    def consume(self, topic: str, count: int) -> list[str]:
        """Read records as a member of the group."""
        more = ("--topic", topic, "--max-messages", str(count), "--timeout-ms", "30000")
        read = self._tools.run(CONSUMER, *self._at, "--group", self.group, *more, timeout=90)
        return sorted(line for line in read.splitlines() if line.startswith("record"))


def test_a_share_group_by_its_tools(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """Offsets before any member, a member's work, states, resets, deletions."""
    topic = new_topic()
    typed = Typed(broker, kafka_tools, f"share-{topic}")
    typed.produce(topic, 6)

    moved = typed.of_group("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    assert re.search(rf"{typed.group}\s+{topic}\s+0\s+0", moved), moved
    assert re.search(rf"{typed.group}\s+Share", typed.list_groups("--group-type", "share"))
    assert "Empty" in typed.groups("--list", "--state")

    assert typed.consume(topic, 6) == [f"record {number}" for number in range(6)]
    wait_until(typed.offsets, "all done", lambda rows: rows["0"][1] == "0")
    assert "Empty" in typed.of_group("--describe", "--state")

    typed.of_group("--reset-offsets", "--topic", f"{topic}:0", "--to-latest", "--execute")
    planned = typed.of_group("--reset-offsets", "--all-topics", "--to-earliest", "--dry-run")
    assert re.search(rf"{topic}\s+0\s+0", planned), planned
    assert typed.offsets() == {"0": ("6", "0")}

    said = typed.of_group("--delete-offsets", "--topic", topic)
    assert re.search(rf"{topic}\s+Successful", said), said
    assert typed.offsets() == {}
    deleted = typed.of_group("--delete")
    assert f"'{typed.group}'" in deleted, deleted
    assert typed.group not in typed.groups("--list")


def test_members_are_described(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """A group that does not exist is said to be missing."""
    typed = Typed(broker, kafka_tools, f"none-{new_topic()}")

    said = kafka_tools.try_run(
        SHARE_GROUPS,
        *("--bootstrap-server", broker.bootstrap),
        *("--describe", "--members", "--group", typed.group),
    )

    assert "not found" in said.stdout + said.stderr
