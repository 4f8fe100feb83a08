"""ApiVersions (18). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ApiVersionsRequest(NamedTuple):
    client_software_name: Annotated[str, "string 3+"] = ""
    client_software_version: Annotated[str, "string 3+"] = ""
    cluster_id: Annotated[str | None, "string 5+ null"] = None
    node_id: Annotated[int, "int32 5+"] = -1
REQUEST = Message(18, 0, 5, 3, ApiVersionsRequest)

class ApiVersion(NamedTuple):
    api_key: Annotated[int, "int16"] = 0
    min_version: Annotated[int, "int16"] = 0
    max_version: Annotated[int, "int16"] = 0

class SupportedFeatureKey(NamedTuple):
    name: Annotated[str, "string 3+"] = ""
    min_version: Annotated[int, "int16 3+"] = 0
    max_version: Annotated[int, "int16 3+"] = 0

class FinalizedFeatureKey(NamedTuple):
    name: Annotated[str, "string 3+"] = ""
    max_version_level: Annotated[int, "int16 3+"] = 0
    min_version_level: Annotated[int, "int16 3+"] = 0

class ApiVersionsResponse(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    api_keys: Annotated[Sequence[ApiVersion], "[]struct"] = ()
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    supported_features: Annotated[Sequence[SupportedFeatureKey], "[]struct 3+ tag 0"] = ()
    finalized_features_epoch: Annotated[int, "int64 3+ tag 1"] = -1
    finalized_features: Annotated[Sequence[FinalizedFeatureKey], "[]struct 3+ tag 2"] = ()
    zk_migration_ready: Annotated[bool, "bool 3+ tag 3"] = False
RESPONSE = Message(18, 0, 5, 3, ApiVersionsResponse)
