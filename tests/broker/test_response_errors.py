"""Error codes are found wherever a response keeps them."""

from datetime import timedelta

from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from broker.response_errors import find_errors


def test_codes_of_partitions_are_found() -> None:
    """Two levels down; zero is no error."""
    response = DeleteRecordsResponse(
        throttle_time=timedelta(0),
        topics=(
            DeleteRecordsTopicResult(
                name="t",
                partitions=tuple(
                    DeleteRecordsPartitionResult(
                        partition_index=index, low_watermark=-1, error_code=ErrorCode(code)
                    )
                    for index, code in enumerate((0, 1, 44))
                ),
            ),
        ),
    )

    assert list(find_errors(response)) == [1, 44]


def test_a_code_at_the_top_is_found() -> None:
    """A whole request that was refused."""
    response = ListPartitionReassignmentsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.cluster_authorization_failed,
        error_message=None,
        topics=(),
    )

    assert list(find_errors(response)) == [31]
