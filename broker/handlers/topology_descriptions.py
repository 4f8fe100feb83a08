"""StreamsGroupTopologyDescriptionUpdate (93), version 0: applications describe themselves.

A plug-in of the broker would keep the descriptions (KIP-1331). As in Kafka no client is asked for
one without a plug-in, and none can be loaded here, so that the API is refused with
UNSUPPORTED_VERSION.
"""

from siltstone.broker.groups.streams.policy import is_enabled
from siltstone.broker.security.rights import GROUP, READ
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def update(
    context: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Refuse a description of a topology, which only a plug-in of the broker could keep."""
    if not is_enabled(context.services.settings, context.services.features):
        return StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=errors.UnsupportedVersion.code
        )
    if not context.may(READ, GROUP, request.group_id):
        return StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=errors.GroupAuthorizationFailed.code
        )
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=errors.UnsupportedVersion.code, error_message=_NO_PLUGIN
    )
