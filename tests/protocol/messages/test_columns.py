"""The columns that kernels look at by number are the fields that their messages have."""

from typing import NamedTuple

import pytest

from siltstone.protocol.messages import columns
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.messages.fetch import FetchPartition, PartitionData
from siltstone.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
)
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
)
from siltstone.protocol.messages.offset_fetch import (
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from siltstone.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderPartition,
)
from siltstone.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
)
from siltstone.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

NAMED = {
    TopicProduceData: {
        "name": "TOPIC_NAME",
        "topic_id": "TOPIC_ID",
        "partition_data": "TOPIC_PARTITIONS",
    },
    PartitionProduceData: {"index": "PARTITION", "records": "PRODUCED_RECORDS"},
    PartitionProduceResponse: {"index": "PARTITION", "error_code": "ERROR_CODE"},
    FetchPartition: {
        "partition": "PARTITION",
        "current_leader_epoch": "LEADER_EPOCH",
        "fetch_offset": "FETCH_OFFSET",
        "last_fetched_epoch": "LAST_EPOCH",
        "partition_max_bytes": "PARTITION_MAX_BYTES",
        "replica_directory_id": "WANTED_COLUMNS",
    },
    PartitionData: {
        "partition_index": "PARTITION",
        "error_code": "ERROR_CODE",
        "high_watermark": "HIGH_WATERMARK",
        "last_stable_offset": "STABLE_OFFSET",
        "log_start_offset": "START_OFFSET",
        "diverging_epoch": "DIVERGENCE",
        "current_leader": "LEADER",
        "snapshot_id": "SNAPSHOT",
        "aborted_transactions": "ABORTED",
        "preferred_read_replica": "PREFERRED_REPLICA",
        "records": "RECORDS",
    },
    ListOffsetsPartition: {
        "partition_index": "PARTITION",
        "current_leader_epoch": "LEADER_EPOCH",
        "timestamp": "QUESTION",
    },
    OffsetForLeaderPartition: {
        "partition": "PARTITION",
        "current_leader_epoch": "LEADER_EPOCH",
        "leader_epoch": "QUESTION",
    },
    ListOffsetsPartitionResponse: {
        "partition_index": "PARTITION",
        "error_code": "ERROR_CODE",
        "timestamp": "END_TIMESTAMP",
        "offset": "END_OFFSET",
        "leader_epoch": "END_EPOCH",
    },
    EpochEndOffset: {
        "partition": "EPOCH_PARTITION",
        "leader_epoch": "EPOCH",
        "end_offset": "EPOCH_END",
    },
    OffsetCommitRequestPartition: {
        "partition_index": "PARTITION",
        "committed_offset": "COMMITTED_OFFSET",
        "committed_leader_epoch": "COMMITTED_EPOCH",
        "committed_metadata": "COMMITTED_METADATA",
    },
    TxnOffsetCommitRequestPartition: {
        "partition_index": "PARTITION",
        "committed_offset": "COMMITTED_OFFSET",
        "committed_leader_epoch": "COMMITTED_EPOCH",
        "committed_metadata": "COMMITTED_METADATA",
    },
    OffsetCommitResponsePartition: {"partition_index": "PARTITION", "error_code": "ERROR_CODE"},
    OffsetFetchResponsePartition: {
        "partition_index": "PARTITION",
        "committed_offset": "STORED_VALUE",
    },
}


@pytest.mark.parametrize(
    ("message", "named"),
    [pytest.param(message, named, id=message.__name__) for message, named in NAMED.items()],
)
def test_columns_are_the_places_of_fields(message: type[NamedTuple], named: dict[str, str]) -> None:
    """A definition that has a new field in the middle moves those behind it."""
    places = {field: place for place, field in enumerate(message._fields)}

    assert {field: getattr(columns, name) for field, name in named.items()} == {
        field: places[field] for field in named
    }


def test_grids_are_as_wide_as_their_messages() -> None:
    """Also where one table serves two versions of an answer."""
    assert len(PartitionData._fields) == columns.FETCHED_COLUMNS
    assert len(ListOffsetsPartition._fields) == columns.ASKED_COLUMNS
    assert len(OffsetForLeaderPartition._fields) == columns.ASKED_COLUMNS
    assert len(ListOffsetsPartitionResponse._fields) == columns.END_COLUMNS
    assert len(EpochEndOffset._fields) == columns.EPOCH_COLUMNS
    assert len(OffsetCommitRequestPartition._fields) == columns.COMMITTED_COLUMNS
    assert len(OffsetCommitResponsePartition._fields) == columns.COMMIT_CODES_COLUMNS
    assert len(OffsetFetchResponsePartition._fields) == columns.STORED_COLUMNS
    assert OffsetFetchResponsePartitions._fields == OffsetFetchResponsePartition._fields


def test_a_committed_value_begins_as_its_answer_does() -> None:
    """Its bytes become the cells of the answer, as they stand."""
    first = columns.STORED_VALUE
    answer = OffsetFetchResponsePartition._fields[first:-1]

    assert len(answer) == 3
    assert [field.removeprefix("committed_") for field in answer] == list(
        OffsetCommitValue._fields[: len(answer)]
    )
