"""Versions of messages that kio does not know yet, for tests that build or read by its schemas.

`test_newer_than_kio.py` compares them with bytes of Kafka's own.
"""

from typing import Final

from siltstone.broker.api import BY_KEY, Api

NEWER: Final = {18: 5, 28: 6, 42: 3, 88: 0, 89: 1, 93: 0, 94: 0}
"""By API: the first version that kio lacks."""


def is_newer(key: int, version: int) -> bool:
    """Tell whether kio does not know a version of an API."""
    return key in NEWER and version >= NEWER[key]


def versions_in_kio(api: Api) -> range:
    """Return the versions of an API that are served and that kio knows."""
    return range(api.versions[0], min(api.versions[-1] + 1, NEWER.get(api.key, 1 << 15)))


IN_KIO: Final = [api for api in BY_KEY.values() if versions_in_kio(api)]
"""The APIs of which kio knows a version."""
