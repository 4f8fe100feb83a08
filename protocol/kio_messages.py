"""Bodies of the requests and responses that have no codec of their own, as kio entities.

Handlers see the newest version we serve and nothing else: requests are lifted to it, responses
are written from it by the negotiated version's writer. Durations are timedeltas, as kio has them.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from io import BytesIO
from types import MappingProxyType
from typing import Final

from protocol.headers import response_head
from protocol.lift import lifting_reader
from protocol.parts import Parts
from protocol.primitives import Buffer
from protocol.schemas import Entity, lower_response, request_class, response_writer

NEWEST: Final[Mapping[int, int]] = MappingProxyType(
    {
        2: 11,  # ListOffsets
        3: 13,  # Metadata
        10: 6,  # FindCoordinator
        13: 5,  # LeaveGroup
        15: 6,  # DescribeGroups
        16: 5,  # ListGroups
        18: 4,  # ApiVersions
        19: 7,  # CreateTopics
        20: 6,  # DeleteTopics
        21: 2,  # DeleteRecords
        22: 5,  # InitProducerId
        23: 4,  # OffsetForLeaderEpoch
        24: 5,  # AddPartitionsToTxn
        25: 4,  # AddOffsetsToTxn
        27: 2,  # WriteTxnMarkers
        28: 5,  # TxnOffsetCommit
        29: 3,  # DescribeAcls
        30: 3,  # CreateAcls
        31: 3,  # DeleteAcls
        32: 4,  # DescribeConfigs
        33: 2,  # AlterConfigs
        34: 2,  # AlterReplicaLogDirs
        35: 5,  # DescribeLogDirs
        37: 3,  # CreatePartitions
        42: 2,  # DeleteGroups
        43: 2,  # ElectLeaders
        44: 1,  # IncrementalAlterConfigs
        45: 1,  # AlterPartitionReassignments
        46: 0,  # ListPartitionReassignments
        47: 0,  # OffsetDelete
        48: 1,  # DescribeClientQuotas
        49: 1,  # AlterClientQuotas
        50: 0,  # DescribeUserScramCredentials
        51: 0,  # AlterUserScramCredentials
        55: 2,  # DescribeQuorum
        57: 2,  # UpdateFeatures
        60: 2,  # DescribeCluster
        61: 0,  # DescribeProducers
        65: 0,  # DescribeTransactions
        66: 2,  # ListTransactions
        69: 1,  # ConsumerGroupDescribe
        74: 1,  # ListConfigResources
        75: 0,  # DescribeTopicPartitions
    }
)
"""API key to the version whose classes handlers take and return: the newest that we serve."""

NO_THROTTLE: Final = timedelta(0)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """Return a duration of the protocol as the integer that was on the wire, -1 included."""
    return duration // _MILLISECOND


def decode_request(api_key: int, version: int, buffer: Buffer, position: int, end: int) -> Entity:
    """Read a body of any served version from ``position`` to ``end`` as the newest entity.

    Nothing of the buffer is kept. Bytes behind the body are ignored, as Kafka does.

    Raises:
        ProtocolError: the bytes are no such body.
    """
    return lifting_reader(api_key, version, NEWEST[api_key])(buffer, position, end)[0]


def encode_response(api_key: int, version: int, correlation_id: int, entity: Entity) -> Parts:
    """Return the response frame with its size prefix, written from the newest entity.

    The answer to an ApiVersions request of an unknown version is this with version 0.
    """
    body = BytesIO()
    lowered = lower_response(api_key, version, NEWEST[api_key], entity)
    response_writer(api_key, version)(body, lowered)
    head = response_head(api_key, version, correlation_id, body.tell())
    return [head + body.getvalue()]


def preload(versions: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Import what these (API key, version) need, at most one module for each step.

    A step takes a millisecond or two; without this the first request of a version pays for it.
    """
    for api_key, version in versions:
        request_class(api_key, version)
        yield
        lifting_reader(api_key, version, NEWEST[api_key])
        yield
        response_writer(api_key, version)
        yield
