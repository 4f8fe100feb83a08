"""Versions that kio does not know yet, against bytes that classes of Apache Kafka 4.4.0 wrote."""

from typing import Any, Final

import pytest

from siltstone.protocol.messages import (
    Message,
    api_versions,
    delete_groups,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    txn_offset_commit,
    unregister_controller,
)
from tests.reference import messages as reference
from tests.reference.tables import twin_of
from tests.support.newer_than_kio import NEWER

TOPIC_ID: Final = (1).to_bytes(8) + (2).to_bytes(8)


def messages() -> list[Any]:
    """Return each message with a row and its bytes."""
    ask, answer = api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse
    deleted = delete_groups.DeletableGroupResult
    txn, left = txn_offset_commit, unregister_controller
    committed = txn.TxnOffsetCommitRequestPartition(1, 8, 2, "x")
    commit = txn.TxnOffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=[committed])
    refused = txn.TxnOffsetCommitResponsePartition(1, 100)
    outcome = txn.TxnOffsetCommitResponseTopic(topic_id=TOPIC_ID, partitions=[refused])
    return [
        (api_versions.REQUEST, 5, ask("ab", "1", "cd", 7), "03616202310363640000000700"),
        (api_versions.REQUEST, 5, ask("ab", "1"), "036162023100ffffffff00"),
        (api_versions.RESPONSE, 5, answer(129, []), "0081010000000000"),
        (delete_groups.REQUEST, 3, delete_groups.DeleteGroupsRequest(["g"]), "02026700"),
        (
            delete_groups.RESPONSE,
            3,
            delete_groups.DeleteGroupsResponse(5, [deleted("g", 134, "why"), deleted("h")]),
            "000000050302670086047768790002680000000000",
        ),
        (left.REQUEST, 0, left.UnregisterControllerRequest(7), "0000000700"),
        (
            left.RESPONSE,
            0,
            left.UnregisterControllerResponse(5, 136, "why"),
            "0000000500880477687900",
        ),
        (
            txn.REQUEST,
            6,
            txn.TxnOffsetCommitRequest("t", "g", 9, 3, 4, "m", "i", [commit]),
            (
                "027402670000000000000009000300000004026d0269020000000000000001000000000000"
                "000202000000010000000000000008000000020278000000"
            ),
        ),
        (
            txn.RESPONSE,
            6,
            txn.TxnOffsetCommitResponse(6, [outcome]),
            "00000006020000000000000001000000000000000202000000010064000000",
        ),
        *messages_of_streams(),
    ]


def messages_of_streams() -> list[Any]:
    """Return the messages of streams groups; kio has those of 4.3 under other names."""
    beat, update = streams_group_heartbeat, streams_group_topology_description_update
    group = streams_group_describe
    configs = [beat.KeyValue("k", "v")]
    subtopology = beat.Subtopology(
        "0",
        ["a"],
        [],
        [beat.TopicInfo("c", 0, 0, configs)],
        ["r"],
        [beat.TopicInfo("r", 4, 1, [])],
        [beat.CopartitionGroup([0], [], [0])],
    )
    asked = beat.StreamsGroupHeartbeatRequest(
        *("g", "m", 0, -1, "i", None, 7),
        beat.Topology(3, [subtopology]),
        *([], [beat.TaskIds("0", [1, 2])], None),
        *("p", beat.Endpoint("h", 65_535), [beat.KeyValue("z", "1")]),
        *([beat.TaskOffset("0", 1, 9)], None, True),
    )  # fmt: skip
    told = beat.StreamsGroupHeartbeatResponse(
        throttle_time_ms=1,
        member_id="m",
        member_epoch=2,
        heartbeat_interval_ms=5,
        task_offset_interval_ms=6,
        status=[beat.Status(3, "d")],
        active_tasks=[beat.ResponseTaskIds("0", [1])],
        endpoint_information_epoch=4,
        partitions_by_user_endpoint=[
            beat.EndpointToPartitions(
                beat.ResponseEndpoint("h", 40_000), [beat.TopicPartition("a", [0])], []
            )
        ],
    )
    tasks = group.Assignment([group.TaskIds("0", [1])], [], [])
    member = group.Member(*("m", 2, None, None, "c", "/h", 1, "p", None, [], [], []), tasks, tasks)
    counted = group.Subtopology("0", ["a"], [], [group.TopicInfo("c", 3, 0, [])], [])
    described = group.DescribedGroup(
        *(0, None, "g", "Stable", 3, 2, group.Topology(1, [counted]), [member], 5),
        topology_description_status=1,
        assignor_name="sticky",
    )
    node = update.TopologyDescriptionNode("n", 1, ["a"], None, ["s"], ["x"])
    description = update.TopologyDescription(
        [update.TopologyDescriptionSubtopology("0", [node])], []
    )
    head = "0267026d00000000ffffffff026900000000070100000003020230020261010202630000"
    topology = "0000000002026b02760000020272020272000000040001010002020000010200000000000102"
    tail = (
        "023003000000010000000200000270010268ffff0002027a0231000202300000000100000000000000090000"
        "0100"
    )
    return [
        *((beat.REQUEST, version, asked, head + topology + tail) for version in (0, 1)),
        (
            beat.RESPONSE,
            0,
            told._replace(acceptable_recovery_lag_legacy=8),
            (
                "00000001000000026d000000020000000500000008000000060203026400020230020000000100000000"
                "0000040202689c4000020261020000000000010000"
            ),
        ),
        (
            beat.RESPONSE,
            1,
            told._replace(acceptable_recovery_lag=10_000, topology_description_required=True),
            (
                "00000001000000026d000000020000000500000006000000000000271002030264000202300200000001"
                "00000001000000040202689c4000020261020000000000010000"
            ),
        ),
        (group.REQUEST, 1, group.StreamsGroupDescribeRequest(["g"], True, True), "020267010100"),
        (
            group.RESPONSE,
            1,
            group.StreamsGroupDescribeResponse(1, [described]),
            (
                "0000000102000000026707537461626c6500000003000000020100000001020230020261010202630000"
                "00030000010001000002026d0000000200000263032f68000000010270ff010101020230020000000100"
                "010100020230020000000100010100000000000005ff0107737469636b790000"
            ),
        ),
        (
            update.REQUEST,
            0,
            update.StreamsGroupTopologyDescriptionUpdateRequest("g", "m", 2, description),
            "0267026d0000000202023002026e01020261000202730202780000010000",
        ),
        (
            update.RESPONSE,
            0,
            update.StreamsGroupTopologyDescriptionUpdateResponse(1, 35, "no"),
            "000000010023036e6f00",
        ),
    ]


@pytest.mark.parametrize(("message", "version", "row", "written"), messages())
def test_reads_and_writes_what_kafka_does(
    message: Message, version: int, row: Any, written: str
) -> None:
    """The core and its reference write these bytes, and read them back."""
    body = bytes.fromhex(written)
    twin = twin_of(message, version)

    assert message.write(version, row) == body
    assert reference.write(twin, row) == body
    assert message.read(version, body, 0, len(body)) == (row, len(body))
    assert reference.read(twin, body, 0, len(body), 1000) == (row, len(body))


def test_all_of_them_are_compared() -> None:
    """No older version is left out of the comparison with kio."""
    compared: dict[int, set[int]] = {}
    lacking: dict[int, set[int]] = {}
    for message, version, *_ in messages():
        compared.setdefault(message.key, set()).add(version)
        lacking[message.key] = set(range(NEWER[message.key], message.last + 1))
    assert compared == lacking
    assert compared.keys() == NEWER.keys()
