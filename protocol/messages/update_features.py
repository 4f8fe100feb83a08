"""UpdateFeatures (57). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class FeatureUpdateKey(NamedTuple):
    feature: Annotated[str, "string"] = ""
    max_version_level: Annotated[int, "int16"] = 0
    allow_downgrade: Annotated[bool, "bool 0-0"] = False
    upgrade_type: Annotated[int, "int8 1+"] = 1

class UpdateFeaturesRequest(NamedTuple):
    timeout_ms: Annotated[int, "int32"] = 60000
    feature_updates: Annotated[Sequence[FeatureUpdateKey], "[]struct"] = ()
    validate_only: Annotated[bool, "bool 1+"] = False
REQUEST = Message(57, 0, 2, 0, UpdateFeaturesRequest)

class UpdatableFeatureResult(NamedTuple):
    feature: Annotated[str, "string"] = ""
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""

class UpdateFeaturesResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    results: Annotated[Sequence[UpdatableFeatureResult], "[]struct 0-1"] = ()
RESPONSE = Message(57, 0, 2, 0, UpdateFeaturesResponse)
