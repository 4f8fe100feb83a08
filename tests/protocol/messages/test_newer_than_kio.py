"""Versions that kio does not know yet, against bytes that classes of Apache Kafka 4.4.0 wrote."""

from typing import Any, Final

import pytest

from siltstone.protocol.messages import (
    Message,
    api_versions,
    delete_groups,
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


def test_each_of_them_is_the_newest_of_its_message() -> None:
    """No older version is left out of the comparison with kio."""
    assert {message.key: message.last for message, *_ in messages()} == NEWER
