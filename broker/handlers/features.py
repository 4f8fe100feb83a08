"""UpdateFeatures (57), versions 0-2: the levels of features, such as ``transaction.version``.

v1 upgrade types and validation only (KIP-584, KIP-778); in v0 a level only goes up, as in Kafka,
which ignores ``allow_downgrade`` · v2 one code for all features instead of one for each. All
features of a request change, or none.

Differs from Kafka: ``kraft.version`` is not named to clients, since there is no quorum; an upgrade
to its highest level passes and changes nothing, so that `kafka-features upgrade --release-version`
goes through; ``metadata.version`` is named, and its level never changes, since there is no quorum
with records of that version.
"""

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.security.rights import ALTER, CLUSTER
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.eligible_leaders import agree
from siltstone.broker.topics.features import Update
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_NO_ERROR = "NONE"  # Kafka's message of a feature that was updated


async def update(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change levels, and answer when they are stored."""
    if not context.may(ALTER, CLUSTER):
        return UpdateFeaturesResponse(**CLUSTER_REFUSED)
    updates = [
        Update(each.feature, each.max_version_level, each.upgrade_type)
        for each in request.feature_updates
    ]
    settings = context.services.settings
    try:
        await context.services.features.update(updates, validate_only=request.validate_only)
        await settings.between(lambda: agree(context.services.features, settings))
    except KafkaError as error:
        return UpdateFeaturesResponse(
            error_code=error.code,
            error_message=(
                "The update failed for all features since the following feature had an error: "
                f"{error.message}"
            ),
        )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature, error_message=_NO_ERROR)
            for feature in dict.fromkeys(each.feature for each in updates)
        ],
    )
