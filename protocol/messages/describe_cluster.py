"""DescribeCluster (60). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DescribeClusterRequest(NamedTuple):
    include_cluster_authorized_operations: Annotated[bool, "bool"] = False
    endpoint_type: Annotated[int, "int8 1+"] = 1
    include_fenced_brokers: Annotated[bool, "bool 2+"] = False
REQUEST = Message(60, 0, 2, 0, DescribeClusterRequest)

class DescribeClusterBroker(NamedTuple):
    broker_id: Annotated[int, "int32"] = 0
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "int32"] = 0
    rack: Annotated[str | None, "string null"] = None
    is_fenced: Annotated[bool, "bool 2+"] = False

class DescribeClusterResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    endpoint_type: Annotated[int, "int8 1+"] = 1
    cluster_id: Annotated[str, "string"] = ""
    controller_id: Annotated[int, "int32"] = -1
    brokers: Annotated[Sequence[DescribeClusterBroker], "[]struct"] = ()
    cluster_authorized_operations: Annotated[int, "int32"] = -2147483648
RESPONSE = Message(60, 0, 2, 0, DescribeClusterResponse)
