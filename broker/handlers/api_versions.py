"""ApiVersions (18), versions 0-5: the APIs and versions in the table of `broker.api`.

v1 throttle time · v3 client software name and version (KIP-511), features (KIP-584) · v4 features
whose lowest level is 0 · v5 the cluster and the node that the client means: one that a reused
address has led to another broker is told to begin again (KIP-1242). A request of a newer version is
answered in version 0, with the range of this API alone, so that any client can read it and ask
again. The APIs of telemetry are named only while a subscription exists: clients that see them use
them.
"""

from siltstone.broker.api import APIS
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.features import SUPPORTED
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from siltstone.protocol.names import is_software_name

_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_LEVEL_0 = 4
_NO_NODE = -1

_SUPPORTED = tuple(
    SupportedFeatureKey(name, known.lowest, known.highest) for name, known in SUPPORTED.items()
)
# Older Java clients throw at a feature whose lowest level is 0 (apache/kafka#16421).
_SUPPORTED_BEFORE_4 = tuple(feature for feature in _SUPPORTED if feature.min_version > 0)
_KEYS = tuple(
    ApiVersion(api.key, lowest, highest) for api in APIS for lowest, highest in [api.advertised]
)
# Clients that see these names ask for subscriptions, so they are named when one exists.
_OF_TELEMETRY = frozenset({71, 72})
_KEYS_WITHOUT_TELEMETRY = tuple(each for each in _KEYS if each.api_key not in _OF_TELEMETRY)


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the table, or an error if the name of the client's software is not valid."""
    if context.version >= _FIRST_WITH_SOFTWARE and not (
        is_software_name(request.client_software_name)
        and is_software_name(request.client_software_version)
    ):
        if context.connection is not None:
            context.connection.note_refused_handshake("the name of its software is no name")
        return ApiVersionsResponse(error_code=ErrorCode.invalid_request)
    misled = _find_misled(context, request)
    if misled:
        if context.connection is not None:
            context.connection.note_refused_handshake(
                f"it means node {request.node_id} of cluster {request.cluster_id!r:.100}"
            )
        return ApiVersionsResponse(error_code=misled)
    if context.connection is not None:
        name, version = request.client_software_name, request.client_software_version
        context.connection.note_software(name, version)
    features = context.services.features
    return ApiVersionsResponse(
        api_keys=_KEYS if context.services.settings.client_metrics else _KEYS_WITHOUT_TELEMETRY,
        supported_features=(
            _SUPPORTED if context.version >= _FIRST_WITH_LEVEL_0 else _SUPPORTED_BEFORE_4
        ),
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
            for name in SUPPORTED
            if (level := features.level(name))
        ],
    )


def _find_misled(context: RequestContext, request: ApiVersionsRequest) -> ErrorCode:
    """Return the error for a client that means another broker, or only half of one."""
    cluster_id, node_id = request.cluster_id, request.node_id
    if cluster_id is None or node_id == _NO_NODE:
        is_half = cluster_id is not None or node_id != _NO_NODE
        return ErrorCode.invalid_request if is_half else ErrorCode.none
    services = context.services
    if (cluster_id, node_id) != (services.logs.cluster_id, services.identity.node_id):
        return ErrorCode.rebootstrap_required
    return ErrorCode.none
