"""Random requests of every API by a user with some rights, mostly with several elements each."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema

from siltstone.broker.api import BY_KEY
from tests.support.batches import make_batch
from tests.support.kio_messages import ZEROS
from tests.support.kio_schemas import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from tests.support.newer_than_kio import IN_KIO, versions_in_kio

TOPICS: Final = {"a": 2, "ab": 1, "b": 1, "c": 1}
"""The topics that there are, and how many partitions each has."""
GROUPS: Final = ("g", "ga", "h")
IDS: Final = ("t", "ta", "u")
KEYS: Final = tuple(sorted({api.key for api in IN_KIO} - {17, 18, 36, 71, 72}))
"""Every API but those that need no right and tell nothing by it, as far as kio knows it."""

_MISSING: Final = "m"
_NO_ID: Final = UUID(int=1 << 90)
_TOPIC_FIELDS: Final = frozenset({"name", "topic", "topic_name", "subscribed_topic_names"})
_GROUP_FIELDS: Final = frozenset({"group_id", "groups", "group_ids", "groups_names"})
# The values of a field, of one API or of all.
_SETTLED: Final[dict[tuple[int | None, str], tuple[Any, ...]]] = {
    (None, "timeout"): (timedelta(seconds=5),),
    (None, "include_topic_authorized_operations"): (True, False),
    (None, "include_cluster_authorized_operations"): (True, False),
    (None, "include_authorized_operations"): (True, False),
    (None, "validate_only"): (True,),
    (None, "producer_id"): (-1, 7),
    (None, "producer_epoch"): (-1, 0),
    (None, "index"): (0, 0, 0, 1),
    (None, "partition"): (0, 0, 0, 1),
    (None, "partition_index"): (0, 0, 0, 1),
    (None, "partition_indexes"): (0, 0, 0, 1),
    (None, "partitions"): (0, 0, 0, 1),
    (None, "current_leader_epoch"): (-1,),
    (None, "allow_auto_topic_creation"): (False, True),
    (None, "require_stable"): (False,),
    (None, "generation_id"): (-1,),
    (None, "generation_id_or_member_epoch"): (-1,),
    (None, "member_epoch"): (-1,),
    (None, "group_instance_id"): (None,),
    (None, "committed_leader_epoch"): (-1,),
    (None, "committed_metadata"): ("",),
    (None, "replica_id"): (-1, -1, -1, 5),
    (0, "transactional_id"): (None, None, None, *IDS),
    (0, "acks"): (1, -1),
    (1, "max_wait"): (timedelta(0),),
    (1, "max_bytes"): (1 << 20,),
    (1, "partition_max_bytes"): (1 << 20,),
    (1, "session_epoch"): (-1, 0),
    (1, "log_start_offset"): (-1,),
    (1, "last_fetched_epoch"): (-1,),
    (2, "replica_id"): (-1,),
    (2, "timestamp"): (-2,),
    (9, "member_id"): (None,),
    (10, "key_type"): (0, 0, 1, 1, 2),
    (11, "session_timeout"): (timedelta(seconds=10),),
    (11, "rebalance_timeout"): (timedelta(seconds=10),),
    (11, "member_id"): ("nobody",),
    (11, "protocol_type"): ("consumer",),
    (12, "member_id"): ("nobody",),
    (13, "member_id"): ("nobody", ""),
    (14, "member_id"): ("nobody",),
    (14, "protocol_type"): ("consumer",),
    (14, "protocol_name"): ("range",),
    (19, "num_partitions"): (1, 2),
    (19, "replication_factor"): (1,),
    (21, "offset"): (0,),
    (22, "transactional_id"): (None, *IDS),
    (22, "transaction_timeout"): (timedelta(seconds=60),),
    (22, "producer_id"): (-1,),
    (22, "producer_epoch"): (-1,),
    (23, "leader_epoch"): (0,),
    (23, "replica_id"): (-1, 5),
    (27, "producer_id"): (7,),
    (27, "producer_epoch"): (0,),
    (34, "path"): ("/nowhere",),
    (37, "count"): (1, 3),
    (43, "election_type"): (0, 1),
    (45, "replicas"): (1, None),
    (47, "partition_index"): (0,),
    (57, "feature"): ("metadata.version", "group.version", "none"),
    (57, "upgrade_type"): (1,),
    (57, "max_version_level"): (1,),
    (60, "endpoint_type"): (1,),
    (64, "broker_id"): (7,),  # Kafka would let its only broker go
    (66, "duration_filter"): (-1,),
    (66, "transactional_id_pattern"): (None,),
    (68, "member_id"): ("AAAAAAAAAAAAAAAAAAAAAA",),
    (68, "member_epoch"): (-1, 3),
    (68, "rebalance_timeout"): (timedelta(seconds=10),),
    (68, "server_assignor"): (None,),
    (68, "instance_id"): (None,),
    (68, "rack_id"): (None,),
    (75, "response_partition_limit"): (2000, 2),
    (55, "topic_name"): ("__cluster_metadata", "a"),
    (55, "partition_index"): (0,),
    (74, "resource_types"): (2, 4, 16, 32),
}
_EMPTY: Final = frozenset({"states_filter", "types_filter", "state_filters", "producer_id_filters"})
_SINGLE: Final = frozenset({"protocols", "assignments", "entity", "ops", "configs", "markers"})
_LEFT_OUT: Final = frozenset(
    {
        (1, "forgotten_topics_data"),
        (19, "assignments"),
        (19, "configs"),
        (37, "assignments"),
        (68, "topic_partitions"),
    }
)
_NEVER_NULL: Final = frozenset({43, 50})
"""APIs whose list Apache Kafka answers oddly, or never, when it is null."""
_NAMES_BY_TYPE: Final = {
    2: (*TOPICS, _MISSING),
    4: ("1", "", "9", "x"),
    8: ("org.x",),
    16: ("s",),
    32: GROUPS,
}
_SETTINGS: Final = {2: "retention.ms", 4: "log.retention.ms", 32: "consumer.session.timeout.ms"}
_ONLY_BY_NAME: Final = frozenset({10, 11})
"""Versions of Metadata with ids that are not read; DeleteTopics has no such."""
_COUNTS: Final = (1, 2, 3, 4)
_SELDOM: Final = 0.2
_FIND: Final = 10


class RightsRequests:
    """Makes requests; ``ids`` are the ids of the broker's topics."""

    def __init__(self, chance: random.Random, ids: Mapping[str, UUID]) -> None:
        self._chance = chance
        self._ids = ids
        self._key = 0
        self._version = 0

    def make(self, key: int) -> Any:
        """Return a request of a random version."""
        versions = versions_in_kio(BY_KEY[key])
        self._key, self._version = key, self._chance.choice([*versions, versions[-1]])
        return self._entity(load_request_schema(key, self._version))

    def _entity(self, kind: Any) -> Any:
        values: dict[str, Any] = {}
        for field in fields(kind):
            name = field.name
            match classify_field(field):
                case EntityField(nested):
                    values[name] = None if name == "cursor" else self._entity(nested)
                case EntityTupleField(nested):
                    values[name] = self._entities(name, nested, is_optional(field))
                case shape if get_field_tag(field) is None:
                    values[name] = self._value(name, field, shape.is_array)
        if self._key in _FITTING:
            change = _FITTING[self._key](self._chance, self._version, values)
            values |= {name: value for name, value in change.items() if name in values}
        return kind(**values)

    def _entities(self, name: str, kind: Any, may_be_null: bool) -> Any:
        if may_be_null and self._key not in _NEVER_NULL and self._chance.random() < _SELDOM:
            return None
        if (self._key, name) in _LEFT_OUT:
            return None if may_be_null else ()
        count = 1 if name in _SINGLE else self._chance.choice(_COUNTS)
        made = [self._entity(kind) for _ in range(count)]
        return tuple({_name_of(each): each for each in made}.values())

    def _value(self, name: str, field: Any, is_array: bool) -> Any:
        if not is_array:
            return self._one(name, field)
        if name in _EMPTY:
            return ()
        if is_optional(field) and self._chance.random() < _SELDOM:
            return None
        given = [self._one(name, field) for _ in range(self._chance.choice(_COUNTS))]
        return None if None in given else tuple(dict.fromkeys(given))

    def _one(self, name: str, field: Any) -> Any:
        settled = _SETTLED.get((self._key, name)) or _SETTLED.get((None, name))
        return self._chance.choice(settled or self._choices(name, field))

    def _choices(self, name: str, field: Any) -> Sequence[Any]:
        kind = get_schema_field_type(field)
        if kind == "uuid":
            return (*self._ids.values(), *self._ids.values(), _NO_ID)
        if kind == "records":
            return (make_batch([(b"k", b"v")]),)
        if name in _GROUP_FIELDS or (name in {"key", "coordinator_keys"} and self._key == _FIND):
            return (*GROUPS, *GROUPS, *IDS, "z")
        if "transactional_id" in name:
            return (*IDS, *IDS, "z")
        if kind == "string" and (name in _TOPIC_FIELDS or "topic" in name):
            return (*TOPICS, *TOPICS, _MISSING)
        return (None if is_optional(field) else ZEROS.get(kind, 0),)


def _name_of(entity: Any) -> object:
    """Return the field by which elements differ."""
    first, *more = [getattr(entity, field.name) for field in fields(entity)]
    return first, *[each for each in more[:1] if isinstance(each, str | UUID)]


# Fields whose values must match each other

Values = dict[str, Any]


def _rule_filter(draw: random.Random, *_: object) -> Values:
    return {
        "resource_type_filter": draw.choice((1, 2, 3, 4, 5, 6, 7)),
        "resource_name_filter": draw.choice((None, "q")),
        "pattern_type_filter": draw.choice((1, 3)),
        "principal_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def _deleted_rule(draw: random.Random, *_: object) -> Values:
    """Return a filter that matches none of the rules that give bob his rights."""
    return {**_rule_filter(draw), "principal_filter": "User:nobody"}


def _rule(draw: random.Random, *_: object) -> Values:
    return {
        "resource_type": draw.choice((2, 3, 4)),
        "resource_name": draw.choice(("q", "kafka-cluster", "")),
        "resource_pattern_type": 3,
        "principal": draw.choice(("User:nobody", "nobody")),
        "host": "*",
        "operation": draw.choice((2, 3, 8)),
        "permission_type": 3,
    }


def _resource(draw: random.Random, _: int, values: Values) -> Values:
    """Return a resource with settings, and one of its settings."""
    kind = draw.choice((2, 2, 2, 4, 8, 16, 32))
    change: Values = {"resource_type": kind, "resource_name": draw.choice(_NAMES_BY_TYPE[kind])}
    if "resource_name" in values and "configs" in values:
        setting = {"name": _SETTINGS.get(kind, "x"), "value": "50000"}
        change["configs"] = tuple(replace(each, **setting) for each in values["configs"])
    return change


def _quota(draw: random.Random, *_: object) -> Values:
    return {
        "entity_type": "user",
        "match_type": draw.choice((1, 2)),
        "entity_name": draw.choice(("x", None)),
        "key": "producer_byte_rate",
        "value": 1e9,
        "remove": draw.random() < 0.5,
    }


def _user(draw: random.Random, *_: object) -> Values:
    return {
        "name": draw.choice(("x", "y")),
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"p" * 32,
    }


def _change_of_users(draw: random.Random, version: int, values: Values) -> Values:
    """Return a user; of the whole request whether it only adds, or only deletes.

    Apache Kafka loses a user that is added in the request that deletes a mechanism's last one.
    """
    if {"deletions", "upsertions"} <= set(values):
        return {draw.choice(("deletions", "upsertions")): ()}
    return _user(draw, version, values)


def _name_or_id(draw: random.Random, version: int, values: Values) -> Values:
    """Return the one of the two that is not given; Metadata took ids later than it had them."""
    if not {"name", "topic_id"} <= set(values):
        return {}
    by_name = version in _ONLY_BY_NAME or draw.random() < 0.5
    return {"topic_id": None} if by_name else {"name": None}


_FITTING: Final[dict[int, Callable[[random.Random, int, Values], Values]]] = {
    3: _name_or_id,
    20: _name_or_id,
    29: _rule_filter,
    30: _rule,
    31: _deleted_rule,
    32: _resource,
    33: _resource,
    44: _resource,
    48: _quota,
    49: _quota,
    50: _user,
    51: _change_of_users,
}
