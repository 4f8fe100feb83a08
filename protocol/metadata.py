"""What Metadata v8 to v10 asked and told besides: what one may do with the cluster (KIP-430).

DescribeCluster took it over, so v11 has it no more; librdkafka still asks Metadata v9.
"""

from dataclasses import dataclass

from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadataRequest(MetadataRequest):
    """A request of these versions, lifted to the newest."""

    include_cluster_authorized_operations: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadataResponse(MetadataResponse):
    """The newest response with the field that is lowered to these versions."""

    cluster_authorized_operations: int
