"""DescribeCluster (60), versions 0-2: a cluster of one (KIP-700).

v1 endpoint type (KIP-919) · v2 fenced brokers (KIP-1073).
"""

from siltstone.broker.handlers import authorized
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import KafkaError, MismatchedEndpointType, UnsupportedEndpointType
from siltstone.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1
_CONTROLLERS = 2


def describe(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Name this broker by the address that the client can reach it at."""
    if request.endpoint_type == _CONTROLLERS:
        return _refuse(MismatchedEndpointType("this is a broker's listener, not a controller's"))
    if request.endpoint_type != _BROKERS:
        return _refuse(
            UnsupportedEndpointType(f"endpoint type {request.endpoint_type}; 1 stands for brokers")
        )
    identity = context.services.identity
    host, port = context.advertised
    asked = request.include_cluster_authorized_operations
    operations = authorized.of_cluster(context) if asked else authorized.NOT_ASKED
    return DescribeClusterResponse(
        cluster_id=context.services.logs.cluster_id,
        controller_id=identity.node_id,
        brokers=[DescribeClusterBroker(identity.node_id, host, port, identity.rack)],
        cluster_authorized_operations=operations,
    )


def _refuse(error: KafkaError) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error.code, error_message=error.message)
