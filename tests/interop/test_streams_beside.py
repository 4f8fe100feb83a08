"""Streams groups are answered as Apache Kafka answers them, field by field, refusals too.

A play of heartbeats and other requests runs on our broker and on Kafka's, both empty at first.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.kafka import KafkaJars
from tests.support.rows import Asker
from tests.support.side_by_side import MASKED, Reading, both, compare
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.size": "4",
}
SENTENCES: Final = frozenset({"error_message"})
GROUP: Final = 32
GROUP_ID_NOT_FOUND: Final = 69


class Player:
    """One broker that the play is played on; it notes what was asked and answered."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._reading = Reading(MASKED - SENTENCES)
        self.noted: list[tuple[str, Any]] = []
        self.epochs: dict[str, int] = {}
        self.tasks: dict[str, dict[str, Any]] = {}

    def ask(self, api: str, version: int, what: str = "", /, **values: Any) -> Any:
        """Ask, and note the answer."""
        told = self._asker.ask(api, version, values)
        self.noted.append((f"{api} v{version} {what or values!r:.300}", self._read(told)))
        return told

    def _read(self, told: Any) -> Any:
        """Return an answer without the order of topics in its status, which is drawn in Kafka."""
        found = self._reading.read(told)
        for each in (found.get("status") or ()) if isinstance(found, dict) else ():
            each["status_detail"] = sorted(re.split("[ ,;]+", each["status_detail"]))
        return found

    def prepare(self, api: str, version: int, /, **values: Any) -> Any:
        """Ask without a note."""
        return self._asker.ask(api, version, values)

    def beat(self, member: str, group: str = "g", version: int = 1, **values: Any) -> Any:
        """Send a heartbeat of a member with its epoch, and the tasks that it was told."""
        said = {"member_epoch": self.epochs.get(member, 0)} | self.tasks.get(member, {}) | values
        told = self.ask(
            "StreamsGroupHeartbeat", version, f"{member} {values!r:.300}",
            group_id=group, member_id=member, **said,
        )  # fmt: skip
        self._learn(member, told)
        return told

    def calm(self, member: str) -> None:
        """Send heartbeats of a member until its group has no status, and note only the last."""

        def beat() -> Any:
            told = self.beat(member)
            self.noted.pop()
            return told

        wait_until(beat, "no status", lambda told: not told["status"])
        self.beat(member)

    def settle(self, *members: str) -> None:
        """Send heartbeats of members until each has what it is to have."""
        for _ in range(4):
            for member in members:
                self.beat(member)

    def _learn(self, member: str, told: Any) -> None:
        if told["error_code"]:
            return
        self.epochs[member] = max(told["member_epoch"], 0)
        if told["active_tasks"] is not None:
            names = ("active_tasks", "standby_tasks", "warmup_tasks")
            self.tasks[member] = {name: told[name] for name in names}


def topology(epoch: int = 1, group: str = "g", **changes: Any) -> dict[str, Any]:
    """Return two subtopologies: one repartitions "a", the other counts what comes."""
    configs = [{"key": "cleanup.policy", "value": "compact"}]
    first = {
        "subtopology_id": "0", "source_topics": ["a"], "repartition_sink_topics": [f"{group}-r"],
    }  # fmt: skip
    second = {
        "subtopology_id": "1",
        "repartition_source_topics": [{"name": f"{group}-r"}],
        "state_changelog_topics": [{"name": f"{group}-c", "topic_configs": configs}],
    } | changes
    return {"epoch": epoch, "subtopologies": [first, second]}


def joining(**values: Any) -> dict[str, Any]:
    """Return the fields of a member that joins."""
    none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return {
        "member_epoch": 0, "rebalance_timeout_ms": 10_000, "topology": topology(),
        "process_id": "p", "client_tags": [],
    } | none | values  # fmt: skip


def test_streams_groups_are_answered_as_kafka_does(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """Every field of every answer, with the sentences of refusals."""
    with (
        both(kafka_jars, tmp_path, SETTINGS) as (ours, theirs),
        Asker(ours.bootstrap) as our_asker,
        Asker(theirs.bootstrap) as their_asker,
    ):
        mine, other = Player(our_asker), Player(their_asker)
        for player in (mine, other):
            play(player)

    assert [what for what, _ in mine.noted] == [what for what, _ in other.noted]
    differences = [
        f"{what}: {each}"
        for (what, one), (_, two) in zip(mine.noted, other.noted, strict=True)
        for each in compare(one, two)
    ]
    assert not differences, "\n".join(differences)
    assert len(mine.noted) > 100


def play(on: Player) -> None:
    """Play all of it on one broker."""
    prepare(on)
    for each in refused_requests():
        for version in (0, 1):
            on.ask("StreamsGroupHeartbeat", version, **each)
    of_bad_topologies(on)
    of_one_member(on)
    of_refused_members(on)
    of_other_requests(on)
    of_more_members(on)
    of_static_members(on)
    of_settings(on)
    of_the_end(on)


def prepare(on: Player) -> None:
    """Make the topics that are read, and wait for the coordinator."""
    for name, partitions in (("a", 3), ("b", 2)):
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        on.prepare("CreateTopics", 7, topics=[topic], timeout_ms=9_000)
    wait_until(
        lambda: on.prepare("FindCoordinator", 6, key_type=0, coordinator_keys=["g"]),
        "a coordinator",
        lambda told: not told["coordinators"][0]["error_code"],
    )
    wait_until(
        lambda: on.prepare("StreamsGroupDescribe", 1, group_ids=["g"]),
        "a coordinator that has read its journal",
        lambda told: told["groups"][0]["error_code"] == GROUP_ID_NOT_FOUND,
    )


def refused_requests() -> Iterator[dict[str, Any]]:
    """Yield requests that contradict themselves, or name what does not exist."""
    whole = joining(group_id="x", member_id="m")
    yield {"group_id": "", "member_id": "m", "member_epoch": 5}
    yield {"group_id": "x", "member_id": "", "member_epoch": 5}
    yield {"group_id": " ", "member_id": " ", "member_epoch": 5}
    yield whole | {"instance_id": ""}
    yield whole | {"rack_id": ""}
    yield whole | {"rebalance_timeout_ms": -1}
    for name in ("active_tasks", "standby_tasks", "warmup_tasks"):
        yield whole | {name: None}
        yield whole | {name: [{"subtopology_id": "0", "partitions": [0]}]}
    yield whole | {"topology": None}
    yield whole | {"topology": topology(source_topic_regex=["a.*"])}
    yield whole | {"topology": topology(state_changelog_topics=[{"name": "c", "partitions": 2}])}
    yield whole | {"topology": topology(state_changelog_topics=[{"name": "__consumer_offsets"}])}
    yield whole | {"topology": topology(state_changelog_topics=[{"name": "x y"}, {"name": "/"}])}
    for epoch in (-2, -3, -1, 1, 7):
        yield {"group_id": "x", "member_id": "m", "member_epoch": epoch}
        yield {"group_id": "x", "member_id": "m", "member_epoch": epoch, "instance_id": "i"}
        yield {"group_id": "x", "member_id": "m", "member_epoch": epoch, "topology": topology()}
    yield {"group_id": "x", "member_id": "m", "member_epoch": 1, "active_tasks": []}


def of_bad_topologies(on: Player) -> None:
    """Sources that do not exist, numbers that do not fit, loops, and no sources at all."""
    of_two = {"source_topics": ["a", "b"], "copartition_groups": [{"source_topics": [0, 1]}]}
    changes: list[dict[str, Any]] = [
        {"source_topics": ["missing", "z", "y", "x"]},
        of_two,
        {"repartition_source_topics": []},
        {"repartition_source_topics": [{"name": "other"}]},
        {"repartition_sink_topics": ["NAME-r", "l"], "repartition_source_topics": [{"name": "l"}]},
        {
            "source_topics": ["b"],
            "copartition_groups": [{"source_topics": [0], "repartition_source_topics": [0]}],
        },
        {
            "source_topics": ["b"],
            "repartition_source_topics": [{"name": "NAME-r", "partitions": 5}],
            "copartition_groups": [{"source_topics": [0], "repartition_source_topics": [0]}],
        },
        {
            "repartition_source_topics": [
                {"name": "NAME-r", "partitions": 5}, {"name": "s", "partitions": 4},
            ],
            "copartition_groups": [{"repartition_source_topics": [0, 1]}],
        },
        {"state_changelog_topics": [{"name": "b"}]},
        {"copartition_groups": [{"source_topics": [7]}]},
    ]  # fmt: skip
    for number, named in enumerate(changes):
        group = f"bad{number}"
        change = json.loads(json.dumps(named).replace("NAME", group))
        on.ask(
            "StreamsGroupHeartbeat", 1, f"{change}",
            group_id=group, member_id="m", **joining(topology=topology(1, group, **change)),
        )  # fmt: skip
        on.ask("StreamsGroupDescribe", 1, group_ids=[group])


def of_one_member(on: Player) -> None:
    """A member joins, gets its topics and its tasks, and reports offsets."""
    on.beat("m", **joining(user_endpoint={"host": "h", "port": 70}, client_tags=[
        {"key": "zone", "value": "z"}, {"key": "cluster", "value": "c"},
    ]))  # fmt: skip
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])
    on.calm("m")
    on.ask("DescribeConfigs", 4, resources=[{
        "resource_type": 2, "resource_name": "g-c", "configuration_keys": ["cleanup.policy"],
    }])  # fmt: skip
    on.beat("m")
    for version in (0, 1):
        for described in (False, True):
            extra = {"include_topology_description": described} if version else {}
            on.ask(
                "StreamsGroupDescribe", version,
                f"g {described}", group_ids=["g"], include_authorized_operations=True, **extra,
            )  # fmt: skip
    offsets = [{"subtopology_id": "1", "partition": 0, "offset": 7}]
    on.beat("m", task_offsets=offsets)
    on.beat("m", task_end_offsets=offsets)
    on.beat("m", task_offsets=[], endpoint_information_epoch=1)
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])


def of_refused_members(on: Player) -> None:
    """Members of other epochs, with other topologies, or with tasks that do not exist."""
    epoch = on.epochs["m"]
    owned = on.tasks["m"]
    ask = "StreamsGroupHeartbeat"
    for group in ("g", "missing"):
        for number in (epoch + 1, epoch - 1, epoch - 2, 1):
            on.ask(ask, 1, group_id=group, member_id="m", member_epoch=number)
            on.ask(ask, 1, group_id=group, member_id="m", member_epoch=number, **owned)
        for number in (-1, -2, 3):
            on.ask(ask, 1, group_id=group, member_id="nobody", member_epoch=number)
            on.ask(ask, 1, group_id=group, member_id="m", member_epoch=number, instance_id="i")
    for name, partition in (("0", 3), ("0", -1), ("9", 0)):
        bad = owned | {"active_tasks": [{"subtopology_id": name, "partitions": [partition]}]}
        on.ask(ask, 1, group_id="g", member_id="m", member_epoch=epoch, **bad)
    for change in (
        topology(2), topology(1, source_topics=["b"]), topology(0, source_topics=["b"]),
    ):  # fmt: skip
        on.ask(ask, 1, f"{change}", group_id="g", member_id="n", **joining(topology=change))
    on.ask(ask, 1, group_id="g", member_id="n", member_epoch=-1)
    on.beat("m")
    on.settle("m")


def of_other_requests(on: Player) -> None:
    """Requests of other kinds of groups, and offsets."""
    on.ask("ListGroups", 5, states_filter=[], types_filter=["streams"])
    on.ask("ListGroups", 5, states_filter=["stable"], types_filter=["Streams"])
    on.ask("ListGroups", 5, states_filter=["not_ready"], types_filter=["streams"])
    on.ask("ListGroups", 5, states_filter=["NotReady"], types_filter=["streams"])
    for version in (5, 6):
        on.ask("DescribeGroups", version, groups=["g"])
    on.ask("ConsumerGroupDescribe", 1, group_ids=["g"])
    on.ask("StreamsGroupDescribe", 1, group_ids=["", "missing", "c"])
    protocols = [{"name": "range", "metadata": b""}]
    for member in ("", "m"):
        on.ask(
            "JoinGroup", 9, group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=9_000,
            member_id=member, protocol_type="consumer", protocols=protocols,
        )  # fmt: skip
    on.ask("SyncGroup", 5, group_id="g", generation_id=1, member_id="m", protocol_type="consumer",
           protocol_name="range")  # fmt: skip
    on.ask("Heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    on.ask("LeaveGroup", 5, group_id="g", members=[{"member_id": "m"}])
    on.ask("ConsumerGroupHeartbeat", 1, group_id="g", member_id="c", member_epoch=0,
           rebalance_timeout_ms=9_000, topic_partitions=[],
           subscribed_topic_names=["a"])  # fmt: skip
    on.ask("DeleteGroups", 2, groups_names=["g"])
    epoch = on.epochs["m"]
    for version in (8, 9):
        for member, number in (
            ("m", epoch), ("m", epoch + 1), ("m", epoch - 1), ("m", 1), ("", -1), ("n", epoch),
        ):  # fmt: skip
            on.ask(
                "OffsetCommit", version, f"{member} {number}", group_id="g",
                generation_id_or_member_epoch=number, member_id=member,
                topics=[
                    {"name": name, "partitions": [
                        {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""},
                    ]} for name in ("a", "g-r", "b")
                ],
            )  # fmt: skip
    for reader, number in (("m", epoch), ("m", epoch - 1), (None, -1), ("n", -1)):
        on.ask("OffsetFetch", 9, groups=[{
            "group_id": "g", "member_id": reader, "member_epoch": number,
            "topics": [{"name": "a", "partition_indexes": [0]}],
        }])  # fmt: skip
    on.ask("OffsetDelete", 0, group_id="g", topics=[
        {"name": name, "partitions": [{"partition_index": 0}]} for name in ("a", "b")
    ])  # fmt: skip
    on.ask(
        "StreamsGroupTopologyDescriptionUpdate", 0, group_id="g", member_id="m", topology_epoch=1
    )


def of_more_members(on: Player) -> None:
    """Tasks move, the group is full, a stale topology, standby tasks, an end for all."""
    on.beat("n", **joining(process_id="q"))
    on.beat("m")
    on.beat("n")
    on.settle("m", "n")
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])
    on.beat("o", **joining(process_id="r", topology=topology(0)))
    on.settle("m", "n", "o")
    on.beat("p", **joining(process_id="r"))
    on.beat("full", **joining(process_id="r"))
    on.settle("m", "n", "o", "p")
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])
    for member in ("o", "p"):
        on.beat(member, member_epoch=-1)
    on.settle("m", "n")
    on.beat("n", shutdown_application=True)
    on.beat("m")
    on.beat("n", member_epoch=-1)
    on.settle("m")


def of_static_members(on: Player) -> None:
    """A static member leaves for a while, comes back under another id, and fences the first."""
    on.beat("s", **joining(process_id="t", instance_id="i"))
    on.settle("m")
    on.beat("s", instance_id="i")
    on.settle("m", "s")
    on.beat("s2", **joining(process_id="t", instance_id="i"))
    on.beat("s", member_epoch=-2, instance_id="i")
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])
    on.beat("s2", **joining(process_id="t", instance_id="i"))
    on.ask("StreamsGroupHeartbeat", 1, group_id="g", member_id="s", member_epoch=3, instance_id="i")
    on.ask(
        "StreamsGroupHeartbeat", 1, group_id="g", member_id="s", member_epoch=-1, instance_id="i"
    )
    on.ask(
        "StreamsGroupHeartbeat", 1, group_id="g", member_id="s", member_epoch=-1, instance_id="j"
    )
    on.beat("s2", instance_id="i")
    on.settle("m", "s2")
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])


def of_settings(on: Player) -> None:
    """The group's own settings: standby tasks and tags."""
    for name, value in (
        ("streams.num.standby.replicas", "1"), ("streams.num.standby.replicas", "3"),
        ("streams.session.timeout.ms", "1"), ("streams.heartbeat.interval.ms", "7000"),
        ("streams.assignor.name", "other"), ("streams.assignor.name", "sticky"),
        ("streams.rack.aware.assignment.tags", "zone,cluster"),
    ):  # fmt: skip
        told = on.prepare("IncrementalAlterConfigs", 1, resources=[{
            "resource_type": GROUP, "resource_name": "g",
            "configs": [{"name": name, "config_operation": 0, "value": value}],
        }])  # fmt: skip
        on.noted.append((f"{name}={value}", told["responses"][0]["error_code"]))
    for version in (0, 1):
        on.beat("m", version=version)
    on.settle("m", "s2")
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])


def of_the_end(on: Player) -> None:
    """All leave, others take the name, and the group is deleted."""
    on.beat("s2", member_epoch=-1, instance_id="i")
    on.settle("m")
    on.beat("m", member_epoch=-1)
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])
    on.ask("ListGroups", 5, states_filter=[], types_filter=["streams"])
    on.beat("m", **joining())
    on.beat("m", member_epoch=-1)
    on.ask("DeleteGroups", 2, groups_names=["g"])
    on.ask("StreamsGroupDescribe", 1, group_ids=["g"])
    on.ask("DeleteGroups", 2, groups_names=["g"])


def test_streams_groups_move_between_brokers(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """Each reads the other's journal: the same group, which goes on with the same tasks."""
    folder = "__consumer_offsets-0"
    with both(kafka_jars, tmp_path, SETTINGS) as brokers:
        before = []
        for broker in brokers:
            with Asker(broker.bootstrap) as asker:
                player = Player(asker)
                prepare(player)
                player.beat("m", **joining(client_tags=[{"key": "zone", "value": "z"}]))
                player.calm("m")
                player.beat("n", **joining(process_id="q", instance_id="i"))
                player.beat("m")
                before.append(player.prepare("StreamsGroupDescribe", 1, group_ids=["g"]))
            broker.stop()
        for broker in brokers:
            shutil.move(broker.folder / folder, tmp_path / broker.__class__.__name__)
        for broker, other in (brokers, brokers[::-1]):
            shutil.copytree(tmp_path / other.__class__.__name__, broker.folder / folder)
            own = tmp_path / broker.__class__.__name__ / "partition.metadata"
            shutil.copy(own, broker.folder / folder / "partition.metadata")
            broker.start()
        addresses = [broker.bootstrap for broker in brokers]
        for address, described in zip(addresses, before[::-1], strict=True):
            with Asker(address) as asker:
                goes_on(Player(asker), described)


def goes_on(player: Player, described: Any) -> None:
    """Hold that a group is as it was on the other broker, and that its members go on."""
    told = wait_until(
        lambda: player.prepare("StreamsGroupDescribe", 1, group_ids=["g"]),
        "a coordinator that has read its journal",
        lambda told: not told["groups"][0]["error_code"],
    )
    [group], [was] = told["groups"], described["groups"]
    assert by_member(group) == by_member(was)
    for name in ("group_state", "group_epoch", "assignment_epoch"):
        assert group[name] == was[name]
    assert {each["subtopology_id"] for each in group["topology"]["subtopologies"]} == {"0", "1"}
    for member in was["members"]:
        player.epochs[member["member_id"]] = member["member_epoch"]
        names = ("active_tasks", "standby_tasks", "warmup_tasks")
        player.tasks[member["member_id"]] = {name: member["assignment"][name] for name in names}
    for _ in range(4):
        for member_id, instance_id in (("m", None), ("n", "i")):
            assert not player.beat(member_id, instance_id=instance_id)["error_code"]
    [after] = player.prepare("StreamsGroupDescribe", 1, group_ids=["g"])["groups"]
    assert after["group_state"] == "Stable"


def by_member(group: Any) -> Any:
    """Return the members of a group by id."""
    return {each["member_id"]: each for each in group["members"]}
