"""Share groups: requests in every state of a group are answered as Apache Kafka answers them."""

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from siltstone.protocol.messages import NO_ID
from tests.support.kafka import KafkaJars
from tests.support.rows import Asker
from tests.support.side_by_side import MASKED, Reading, both, compare
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.max.size": "2",
    "group.share.assignment.interval.ms": "0",
}
TOPICS: Final = {"a": 2, "b": 1}
SHARED, CLASSIC, CONSUMER, MISSING = "s", "c", "k", "missing"
GROUPS: Final = (SHARED, CLASSIC, CONSUMER, MISSING, "")
SENTENCES: Final = ("ShareGroupHeartbeat", "ShareGroupDescribe")
"""The APIs whose messages are compared word for word: they are no texts of an error code."""


def test_share_groups_are_as_kafkas(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """One member, two, too many, none; queues made, moved, deleted; the group deleted."""
    with (
        both(kafka_jars, tmp_path, SETTINGS) as (ours, theirs),
        Asker(ours.bootstrap) as our_asker,
        Asker(theirs.bootstrap) as their_asker,
    ):
        mine, other = list(Scene(our_asker).play()), list(Scene(their_asker).play())

    differences = [
        f"{number} {what}: {each}"
        for number, ((what, told), (_, also_told)) in enumerate(zip(mine, other, strict=True))
        for each in compare(told, also_told)
    ]
    assert len(mine) > 150
    assert not differences, "\n".join(differences)


class Scene:
    """One broker, and the requests to it."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.codes = Reading(MASKED, frozenset())
        self.sentences = Reading(MASKED - {"error_message"})

    def ask(self, api: str, version: int, **values: Any) -> tuple[str, Any]:
        """Return a request, and its answer in the words that all brokers have in common."""
        told = self.asker.ask(api, version, values)
        reading = self.sentences if api in SENTENCES else self.codes
        return f"{api} v{version} {values!r:.300}", reading.read(told)

    def beat(self, member: str, epoch: int, *names: str, group: str = SHARED) -> tuple[str, Any]:
        """Send a heartbeat of a share group."""
        return self.ask(
            "ShareGroupHeartbeat",
            1,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=names or None,
        )

    def play(self) -> Iterator[tuple[str, Any]]:
        """Yield all requests and answers."""
        self.prepare()
        yield from self.refused_heartbeats()
        yield from self.asked_about()
        yield self.beat("m", 0, "a", "b", "missing")
        yield self.settle("m")
        yield from self.asked_about()
        yield from self.other_protocols()
        yield from self.epochs_and_size()
        yield from self.changes()
        self.leave("m", "n")
        yield from self.asked_about()
        yield from self.other_protocols()
        yield from self.changes()
        yield from self.asked_about()
        yield self.beat("m", 0, "a", "b")
        yield self.settle("m")
        yield from self.asked_about()
        yield self.delete_groups()
        self.leave("m")
        yield self.delete_groups()
        yield from self.asked_about()
        yield self.delete_groups()

    def prepare(self) -> None:
        """Make topics, a group of each other type, and wait for the coordinator."""
        topics: Any = [
            {"name": name, "num_partitions": count, "replication_factor": 1}
            for name, count in TOPICS.items()
        ]
        told = self.asker.ask("CreateTopics", 7, {"topics": topics, "timeout_ms": 9_000})
        for row in sorted(told["topics"], key=itemgetter("name")):
            for reading in (self.codes, self.sentences):
                reading.read(row["topic_id"], "topic_id")
        self.wait("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": ["x"]}, "coordinators")
        partition = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}
        commit: dict[str, Any] = {"group_id": CLASSIC, "generation_id_or_member_epoch": -1}
        commit |= {"topics": [{"name": "a", "partitions": [partition]}]}
        wait_until(
            lambda: self.asker.ask("OffsetCommit", 9, commit)["topics"][0]["partitions"][0],
            "a committed offset",
            lambda row: not row["error_code"],
        )
        joining: dict[str, Any] = {
            "group_id": CONSUMER,
            "member_id": "k",
            "rebalance_timeout_ms": 60_000,
        }
        joining |= {"subscribed_topic_names": ["a"], "topic_partitions": []}
        assert not self.asker.ask("ConsumerGroupHeartbeat", 1, joining)["error_code"]

    def wait(self, api: str, version: int, asked: dict[str, Any], rows: str) -> None:
        """Ask until no row has an error."""
        wait_until(
            lambda: self.asker.ask(api, version, asked)[rows],
            f"{api} without errors",
            lambda told: not any(row["error_code"] for row in told),
        )

    def settle(self, member: str) -> tuple[str, Any]:
        """Heartbeat until all partitions of both topics are assigned; return the members."""

        def look() -> Any:
            epoch = self.members()[member]["member_epoch"]
            self.beat(member, epoch)
            held = self.members()[member]["assignment"]["topic_partitions"]
            return sorted((each["topic_name"], each["partitions"]) for each in held)

        wait_until(look, "all partitions", lambda held: len(held) == len(TOPICS))
        return self.ask("ShareGroupDescribe", 1, group_ids=[SHARED])

    def members(self) -> dict[str, Any]:
        """Return the members of the share group."""
        [group] = self.asker.ask("ShareGroupDescribe", 1, {"group_ids": [SHARED]})["groups"]
        return {member["member_id"]: member for member in group["members"]}

    def leave(self, *members: str) -> None:
        """Let members leave, those that are members."""
        for member in members:
            if member in self.members():
                assert not self.beat(member, -1)[1]["error_code"]

    def refused_heartbeats(self) -> Iterator[tuple[str, Any]]:
        """Fields that cannot be, and groups that are missing or of another type."""
        for fields in (
            {}, {"member_id": "x" * 37}, {"member_id": " "}, {"group_id": "", "member_id": "m"},
            {"group_id": " ", "member_id": "m"}, {"member_id": "m", "rack_id": ""},
            {"member_id": "m"}, {"member_id": "m", "subscribed_topic_names": []},
            {"member_id": "m", "member_epoch": -2}, {"member_id": "m", "member_epoch": -3},
            {"member_id": " ", "group_id": "", "rack_id": "", "member_epoch": -2},
        ):  # fmt: skip
            yield self.ask("ShareGroupHeartbeat", 1, **{"group_id": SHARED} | fields)
        for group in (MISSING, CLASSIC, CONSUMER):
            yield self.beat("m", 1, "a", group=group)
            yield self.beat("m", -1, group=group)
        for group in (CLASSIC, CONSUMER):
            yield self.beat("m", 0, "a", group=group)

    def asked_about(self) -> Iterator[tuple[str, Any]]:
        """All that describes and lists groups and their offsets."""
        for version in (5, 6):
            yield self.ask("DescribeGroups", version, groups=GROUPS)
        for asked in (False, True):
            yield self.ask(
                "ShareGroupDescribe", 1, group_ids=GROUPS, include_authorized_operations=asked
            )
        yield self.ask("ConsumerGroupDescribe", 1, group_ids=[SHARED])
        for states in ((), ("Stable",), ("empty",), ("Dead",)):
            for types in ((), ("share",), ("SHARE", "classic"), ("consumer",)):
                yield self.ask("ListGroups", 5, states_filter=states, types_filter=types)
        some = [
            {"topic_name": name, "partitions": [*range(count)]}  # Kafka is slow to find no more
            for name, count in (TOPICS | {"no.such": 2}).items()
        ]
        for version in (0, 1):
            for group in GROUPS:
                for topics in (None, [], some):
                    wanted = [{"group_id": group, "topics": topics}]
                    yield self.ask("DescribeShareGroupOffsets", version, groups=wanted)
        for version in (7, 9, 10):
            topics = [{"name": "a", "topic_id": NO_ID, "partition_indexes": [0]}]
            fetched: dict[str, Any] = {"group_id": SHARED, "topics": topics}
            if version == 7:
                yield self.ask("OffsetFetch", version, **fetched)
            else:
                yield self.ask("OffsetFetch", version, groups=[fetched | {"topics": None}])

    def other_protocols(self) -> Iterator[tuple[str, Any]]:
        """Requests of the other types of groups."""
        of_group = {"group_id": SHARED}
        for member in ("", "m"):
            joining: dict[str, Any] = {
                "member_id": member,
                "session_timeout_ms": 30_000,
                "protocol_type": "consumer",
            }
            joining |= {
                "protocols": [{"name": "range", "metadata": b""}],
                "rebalance_timeout_ms": 9,
            }
            for version in (3, 9):
                yield self.ask("JoinGroup", version, **of_group | joining)
            said = {"member_id": member, "generation_id": 1}
            yield self.ask("SyncGroup", 5, **of_group | said)
            yield self.ask("Heartbeat", 4, **of_group | said)
            for epoch in (-1, 0, 3):
                for version in (8, 9):
                    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
                    yield self.ask(
                        "OffsetCommit",
                        version,
                        group_id=SHARED,
                        generation_id_or_member_epoch=epoch,
                        member_id=member,
                        topics=[{"name": "a", "partitions": [row]}],
                    )
        yield self.ask("LeaveGroup", 2, **of_group | {"member_id": "m"})
        yield self.ask("LeaveGroup", 5, **of_group | {"members": [{"member_id": "m"}]})
        for epoch in (0, 1, -1):
            heartbeat: dict[str, Any] = {
                "member_id": "x",
                "member_epoch": epoch,
                "rebalance_timeout_ms": 60_000,
            }
            heartbeat |= {"subscribed_topic_names": ["a"], "topic_partitions": []}
            yield self.ask("ConsumerGroupHeartbeat", 1, **of_group | heartbeat)
        topics = [{"name": "a", "partitions": [{"partition_index": 0}]}]
        yield self.ask("OffsetDelete", 0, **of_group | {"topics": topics})

    def epochs_and_size(self) -> Iterator[tuple[str, Any]]:
        """Epochs that are not the member's, members that are not in, and one too many."""
        epoch = self.members()["m"]["member_epoch"]
        for wrong in (epoch + 1, epoch - 1, epoch, 1):
            yield self.beat("m", wrong)
        yield self.beat("m", epoch, "a", "b")
        yield self.beat("x", 1, "a")
        yield self.beat("x", -1)
        yield self.beat("n", 0, "a")
        yield self.beat("x", 0, "a")
        yield self.beat("x", 1, "a")
        for _ in range(2):
            for member in "nm":
                yield self.beat(member, self.members()[member]["member_epoch"])
        yield self.beat("n", self.members()["n"]["member_epoch"], "b")
        for _ in range(2):
            for member in "nm":
                yield self.beat(member, self.members()[member]["member_epoch"])
        yield self.ask("ShareGroupDescribe", 1, group_ids=[SHARED])

    def changes(self) -> Iterator[tuple[str, Any]]:
        """Offsets altered and deleted, of this group and of others."""
        rows = [{"partition_index": index, "start_offset": index + 5} for index in (0, 1, 5)]
        moved = [{"topic_name": name, "partitions": rows} for name in ("a", "no.such", "b")]
        for group in GROUPS:
            if group != MISSING:
                yield self.ask("AlterShareGroupOffsets", 0, group_id=group, topics=moved)
                yield self.ask("AlterShareGroupOffsets", 0, group_id=group, topics=[])
        wanted = [{"group_id": SHARED, "topics": None}]
        yield self.ask("DescribeShareGroupOffsets", 1, groups=wanted)
        for names in (["no.such", "b"], ["b", "a"], ["a"], []):
            topics = [{"topic_name": name} for name in names]
            for group in GROUPS:
                yield self.ask("DeleteShareGroupOffsets", 0, group_id=group, topics=topics)
            yield self.ask("DescribeShareGroupOffsets", 1, groups=wanted)

    def delete_groups(self) -> tuple[str, Any]:
        """Delete the share group, and one that does not exist."""
        return self.ask("DeleteGroups", 2, groups_names=[SHARED, MISSING])
