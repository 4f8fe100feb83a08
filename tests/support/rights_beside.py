"""One broker with rights: its super user prepares, bob sends requests, answers are compared.

Values that may differ from broker to broker (numbers, addresses, words, sizes) are left out of an
answer, ids of topics become their names, and rows are sorted.
"""

import random
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from siltstone.protocol.messages.fetch import FetchPartition
from siltstone.protocol.names import TopicKey
from tests.support.fetch_requests import FetchRequest, request_entity
from tests.support.kio_messages import encode
from tests.support.kio_schemas import request_class
from tests.support.rights_requests import GROUPS, IDS, TOPICS
from tests.support.waiting import wait_until

_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS: Final = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f"{_MODULE} required "
    'username="admin" password="pw" user_admin="pw" user_bob="pw";',
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""For either broker; ANONYMOUS is Apache Kafka's broker at its own controller."""

Rule = tuple[int, str, int, str, str, int, int]
"""Type, name and pattern of a resource, principal, host, operation, permission."""

_OPERATIONS: Final = {
    2: (2, 3, 4, 5, 6, 7, 8, 10, 11),
    3: (2, 3, 6, 8, 10, 11),
    4: (2, 5, 7, 8, 9, 10, 11, 12),
    5: (2, 4, 8, 15),
}
_NAMES: Final = {
    2: ("*", "a", "ab", "b", "c", "m"),
    3: ("*", "g", "ga", "h", "z"),
    4: ("kafka-cluster",),
    5: ("*", "t", "ta", "u", "z"),
}
_LITERAL, _PREFIXED = 3, 4
_DENY, _ALLOW = 2, 3
_TIMEOUT: Final = timedelta(seconds=5)
_HANDSHAKE, _AUTHENTICATE, _FETCH = 17, 36, 1
_LAST_BY_NAME: Final = 12

_LEFT_OUT: Final = frozenset(
    [
        "aborted_transactions",
        "base_offset",
        "broker_id",
        "brokers",
        "cluster_id",
        "controller_id",
        "coordinator_epoch",
        "current_txn_start_offset",
        "end_offset",
        "endpoints",
        "error_message",
        "high_watermark",
        "host",
        "last_sequence",
        "last_stable_offset",
        "last_timestamp",
        "leader_epoch",
        "log_append_time",
        "log_dir",
        "log_start_offset",
        "low_watermark",
        "member_id",
        "node_endpoints",
        "node_id",
        "offset",
        "offset_lag",
        "partition_size",
        "port",
        "producer_epoch",
        "producer_id",
        "records",
        "session_id",
        "size",
        "throttle_time",
        "timestamp",
        "total_bytes",
        "transaction_start_time",
        "transaction_start_time_ms",
        "usable_bytes",
    ]
)
_ONLY_WHETHER: Final = frozenset({"active_producers", "configs", "current_voters", "nodes"})


def make_rules(draw: random.Random) -> set[Rule]:
    """Return some rules about bob."""
    rules = set()
    for _ in range(draw.choice((0, 2, 4, 8, 14, 20))):
        kind = draw.choice((2, 2, 2, 3, 3, 4, 5))
        name = draw.choice(_NAMES[kind])
        pattern = _LITERAL
        if name not in {"*", "kafka-cluster"}:
            pattern = draw.choice((_LITERAL, _LITERAL, _PREFIXED))
        permission = draw.choice((_ALLOW, _ALLOW, _ALLOW, _ALLOW, _DENY))
        operation = draw.choice(_OPERATIONS[kind])
        rules.add((kind, name, pattern, "User:bob", "*", operation, permission))
    return rules


class _Client:
    """A connection that has logged in by PLAIN."""

    def __init__(self, bootstrap: str, user: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._address = host, int(port)
        self._user = user
        self._socket: socket.socket | None = None
        self._number = 0

    def ask(self, request: Any) -> Any:
        """Return the answer; "closed" or "silent" without one."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=20)
            self._exchange(request_class(_HANDSHAKE, 1)(mechanism="PLAIN"))
            token = f"\0{self._user}\0pw".encode()
            login = self._exchange(request_class(_AUTHENTICATE, 2)(auth_bytes=token))
            assert login.error_code == ErrorCode.none
        try:
            return self._exchange(request)
        except (EOFError, ConnectionError):
            self.close()
            return "closed"
        except TimeoutError:
            self.close()
            return "silent"

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, request: Any) -> Any:
        assert self._socket is not None
        kind = type(request)
        self._number += 1
        head = struct.pack(">hhih", kind.__api_key__, kind.__version__, self._number, -1)
        body = head + (b"\0" if kind.__flexible__ else b"") + encode(request)
        self._socket.sendall(len(body).to_bytes(4, "big") + body)
        answer = self._receive(int.from_bytes(self._receive(4), "big"))
        response = load_response_schema(kind.__api_key__, kind.__version__)
        try:
            return entity_reader(response)(memoryview(answer), 5 if kind.__flexible__ else 4)[0]
        except SerialError as error:  # kio cannot read it, such as a time before 1970
            return f"{error} in {len(answer)} bytes"

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


class Side:
    """A broker that runs, whose settings are `SETTINGS`."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = _Client(bootstrap, "admin")
        self._bob = _Client(bootstrap, "bob")
        self.ids: Mapping[str, UUID] = {}
        """Of the topics, in the order of their names."""

    def close(self) -> None:
        """End the connections."""
        self._admin.close()
        self._bob.close()

    def ask(self, request: Any) -> Any:
        """Return the answer to bob, in the form in which it is compared."""
        return self._plain(self._bob.ask(request), type(request).__api_key__)

    def fetch(self, version: int, names: Sequence[str], session_id: int, epoch: int) -> Any:
        """Return the unchanged answer to bob's Fetch of a session."""
        partition = FetchPartition(0, partition_max_bytes=1000)
        keys: list[TopicKey] = [
            self.ids[name].bytes if version > _LAST_BY_NAME else name for name in names
        ]
        request = FetchRequest(
            session_id=session_id, session_epoch=epoch, topics=[(key, [partition]) for key in keys]
        )
        return self._bob.ask(request_entity(version, request))

    def name_of(self, topic: Any) -> str:
        """Return the name of a topic in the answer to a Fetch."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return getattr(topic, "topic", None) or names[topic.topic_id]

    def prepare(self) -> None:
        """Make topics, groups with offsets, and transactional ids."""
        self.mend()
        for group in GROUPS:
            self._insist(8, 8, lambda answer: _has_no_error(answer.topics), **_commit(group), key=0)
        for name in IDS:
            self._insist(
                22,
                4,
                lambda answer: answer.error_code == ErrorCode.none,
                transactional_id=name,
                transaction_timeout=timedelta(seconds=60),
                producer_id=-1,
                producer_epoch=-1,
                key=1,
            )

    def mend(self) -> None:
        """Restore the topics that bob has created, enlarged or deleted."""
        wait_until(self._mended, "the topics to exist", timeout=30)

    def set_rules(self, wanted: set[Rule]) -> None:
        """Replace all rules by these."""
        there = self._rules()
        if gone := there - wanted:
            names = [
                "resource_type_filter",
                "resource_name_filter",
                "pattern_type_filter",
                "principal_filter",
                "host_filter",
                "operation",
                "permission_type",
            ]
            cls = request_class(31, 3, "DeleteAclsFilter")
            filters = tuple(cls(**dict(zip(names, rule, strict=True))) for rule in gone)
            self._admin.ask(request_class(31, 3)(filters=filters))
        if new := wanted - there:
            names = [
                "resource_type",
                "resource_name",
                "resource_pattern_type",
                "principal",
                "host",
                "operation",
                "permission_type",
            ]
            cls = request_class(30, 3, "AclCreation")
            creations = tuple(cls(**dict(zip(names, rule, strict=True))) for rule in new)
            self._admin.ask(request_class(30, 3)(creations=creations))
        wait_until(self._rules, "the rules are told", lambda seen: seen == wanted, timeout=30)

    def _rules(self) -> set[Rule]:
        answer = self._admin.ask(
            request_class(29, 3)(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        )
        return {
            (
                row.resource_type,
                row.resource_name,
                row.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for row in answer.resources
            for acl in row.acls
        }

    def _mended(self) -> bool:
        """Check the topics, and restore them if need be."""
        answer = self._admin.ask(
            request_class(3, 12)(
                topics=None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        )
        rows = {each.name: each for each in answer.topics if not each.name.startswith("__")}
        wrong = [name for name in rows if len(rows[name].partitions) != TOPICS.get(name)]
        if wrong:
            self._admin.ask(request_class(20, 5)(topic_names=tuple(wrong), timeout=_TIMEOUT))
        missing = [name for name in TOPICS if name not in rows]
        if missing:
            cls = request_class(19, 5, "CreatableTopic")
            topics = tuple(
                cls(
                    name=name,
                    num_partitions=TOPICS[name],
                    replication_factor=1,
                    assignments=(),
                    configs=(),
                )
                for name in missing
            )
            request = request_class(19, 5)(topics=topics, timeout=_TIMEOUT, validate_only=False)
            self._admin.ask(request)
        self.ids = {name: rows[name].topic_id for name in sorted(rows)}
        return not wrong and not missing and all(map(_is_led, rows.values()))

    def _insist(self, api: int, version: int, holds: Any, *, key: int, **values: Any) -> None:
        """Send a request until it succeeds; the coordinator may have to load first."""

        def look() -> Any:
            name = values.get("group_id") or values["transactional_id"]
            self._admin.ask(request_class(10, 4)(key_type=key, coordinator_keys=(name,)))
            return self._admin.ask(request_class(api, version)(**values))

        wait_until(look, f"api {api} is served", holds, timeout=60)

    def _plain(self, value: Any, api: int, name: str = "") -> Any:
        """Return a value in the form in which it is compared."""
        if is_dataclass(value):
            kept = [field.name for field in fields(value) if field.name not in _LEFT_OUT]
            return {each: self._plain(getattr(value, each), api, each) for each in kept}
        if isinstance(value, ErrorCode):
            return value.name
        if isinstance(value, UUID):
            names = [each for each, topic_id in self.ids.items() if topic_id == value]
            return f"id of {names[0]}" if names else bool(value.int)
        if isinstance(value, tuple):
            if name in _ONLY_WHETHER:
                return bool(value)
            rows = [self._plain(each, api, name) for each in value]
            if api == _FETCH and name == "responses":  # a Fetch may name a topic twice
                rows = [
                    {**row, "partitions": [partition]}
                    for row in rows
                    for partition in row["partitions"]
                ]
            return sorted(rows, key=repr)
        return value


def _is_led(topic: Any) -> bool:
    return all(each.leader_id >= 0 for each in topic.partitions)


def _has_no_error(topics: Any) -> bool:
    return all(not each.error_code for topic in topics for each in topic.partitions)


def _commit(group: str) -> dict[str, Any]:
    row = request_class(8, 8, "OffsetCommitRequestPartition")(
        partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
    )
    cls = request_class(8, 8, "OffsetCommitRequestTopic")
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": tuple(cls(name=name, partitions=(row,)) for name in TOPICS),
    }
