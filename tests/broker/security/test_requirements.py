"""Every API has its row, and every path of a row leads to names in the request."""

from typing import Any, get_args, get_origin, get_type_hints

import pytest

from siltstone.broker.api import APIS, BY_KEY, Api
from siltstone.broker.security.requirements import REQUIREMENTS

WITHOUT = {
    "SaslHandshake",
    "ApiVersions",
    "SaslAuthenticate",
    "DescribeCluster",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
}
"""Everybody may ask these: how to log in, where the broker is, and which metrics it wants."""


def test_every_api_has_its_row() -> None:
    """One that is served but not listed would be everybody's."""
    assert set(REQUIREMENTS) == set(BY_KEY)
    assert {api.name for api in APIS if not REQUIREMENTS[api.key]} == WITHOUT


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_paths_lead_to_names(api: Api) -> None:
    """Each ends at a text or a list of texts."""
    request = api.load_messages()[0].struct
    for need in REQUIREMENTS[api.key]:
        for path in need.names:
            assert resolve(request, path.split(".")) is str


def resolve(kind: Any, path: list[str]) -> Any:
    """Return the type at the end of a path, within arrays and what may be missing."""
    while get_origin(kind) is not None:
        kind = next(each for each in get_args(kind) if each is not type(None))
    return resolve(get_type_hints(kind)[path[0]], path[1:]) if path else kind
