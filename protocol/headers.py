"""The versions of an API that are flexible: with compact lengths and tagged fields (KIP-482).

`protocol.messages` says the same of the APIs that it has; here it stands without their tables, for
the head of a request, which is read before anything else.
"""

from typing import Final

API_VERSIONS: Final = 18
_NEVER: Final = 1 << 15

_FLEXIBLE_SINCE: Final = {
    1: (27, 44, 48, 49, 53, 54),
    2: (21, 22, 29, 30, 31, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43),
    3: (10, 16, 18, 24, 25, 26, 28),
    4: (12, 13, 14, 20, 23, 32),
    5: (15, 19),
    6: (2, 9, 11),
    8: (8,),
    9: (0, 3),
    12: (1,),
    _NEVER: (17, 47),
}
FIRST_FLEXIBLE: Final = dict.fromkeys(range(45, 93), 0) | {
    key: version for version, keys in _FLEXIBLE_SINCE.items() for key in keys
}
"""API key to the first version with compact lengths and tagged fields."""
