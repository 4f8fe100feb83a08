"""Requests from plain values: kio's classes are found by the key, the nested ones by the fields."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from kio.index import UnknownEntity

from bench.connection import request_class
from siltstone.broker.api import BY_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_LOG_DIRS: Final = 35
INCREMENTAL_ALTER_CONFIGS: Final = 44
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_QUORUM: Final = 55
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
LIST_TRANSACTIONS: Final = 66
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75


def message(key: int, /, version: int | None = None, **values: Any) -> Any:
    """Return a request of the newest version that kio knows of those served, or of the given one.

    A nested message is a dictionary of its fields.
    """
    return _made(_newest(key) if version is None else request_class(key, version), values)


@cache
def _newest(key: int) -> Any:
    for version in reversed(BY_KEY[key].versions):
        with suppress(UnknownEntity):
            return request_class(key, version)
    raise LookupError(f"kio knows no version of API {key}")


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    nested = _nested(kind)
    made = {
        name: _part(nested[name], value) if name in nested else value
        for name, value in values.items()
    }
    return kind(**made)


def _part(kind: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return _made(kind, value)
    return value if value is None else tuple(_made(kind, each) for each in value)


@cache
def _nested(kind: Any) -> dict[str, Any]:
    """Return the class of each field that holds messages."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        for each in (
            hint,
            *get_args(hint),
            *(deep for part in get_args(hint) for deep in get_args(part)),
        ):
            if dataclasses.is_dataclass(each) and isinstance(each, type):
                found[name] = each
    return {
        name: each
        for name, each in found.items()
        if any(field.name == name for field in dataclasses.fields(kind))
    }
