"""UpdateFeatures (57), versions 0-2: the levels of ``transaction.version`` and ``group.version``.

v1 upgrade types and validation only (KIP-584, KIP-778) · v2 one code for all instead of one for
each feature. All features of a request change, or none.

Differs from Kafka: ``share.version``, ``streams.version`` and ``kraft.version`` are not there, as
what they stand for; ``metadata.version`` is named, and keeps its level, since there is no quorum
whose records it could describe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from broker.eligible_leaders import agree
from broker.features import Update
from protocol.errors import ErrorCode, KafkaError
from protocol.kio_messages import NO_THROTTLE

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest

    from broker.context import RequestContext


_NO_ERROR = "NONE"  # Kafka's message of a feature that was updated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer(UpdateFeaturesResponse):
    """The answer with what versions 0 and 1 say besides: a result for each feature."""

    results: tuple[UpdatableFeatureResult, ...]


async def update(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change levels and answer when they are kept."""
    updates = [
        Update(each.feature, each.max_version_level, each.upgrade_type)
        for each in request.feature_updates
    ]
    try:
        await context.rooms.features.update(updates, validate_only=request.validate_only)
        agree(context.rooms.features, context.rooms.settings)
    except KafkaError as error:
        return _Answer(
            throttle_time=NO_THROTTLE,
            error_code=error.code,
            error_message=(
                "The update failed for all features since the following feature had an error: "
                f"{error.message}"
            ),
            results=(),
        )
    return _Answer(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(
                feature=feature, error_code=ErrorCode.none, error_message=_NO_ERROR
            )
            for feature in dict.fromkeys(each.feature for each in updates)
        ),
    )
