"""One broker with rights: its super user prepares, bob sends requests, answers are compared.

Values that may differ from broker to broker (numbers, addresses, words, sizes) are left out of an
answer.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from tests.support.kio_messages import encode
from tests.support.rights_requests import GROUPS, IDS, TOPICS
from tests.support.rows import Asker
from tests.support.side_by_side import MASKED, Reading
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
_TIMEOUT_MS: Final = 5_000
_LAST_BY_NAME: Final = 12

_LEFT_OUT: Final = MASKED | {
    *("aborted_transactions", "base_offset", "broker_id", "brokers", "controller_id"),
    *("coordinator_epoch", "current_txn_start_offset", "end_offset", "endpoints"),
    *("high_watermark", "last_sequence", "last_stable_offset", "leader_epoch"),
    *("log_start_offset", "low_watermark", "member_id", "node_endpoints", "node_id", "offset"),
    *("offset_lag", "partition_size", "producer_epoch", "producer_id", "records", "session_id"),
    *("size", "timestamp"),
}
_ONLY_WHETHER: Final = frozenset({"active_producers", "configs", "current_voters", "nodes"})
_RULE: Final = (
    *("resource_type", "resource_name", "resource_pattern_type", "principal", "host"),
    *("operation", "permission_type"),
)
_FILTER: Final = (
    *("resource_type_filter", "resource_name_filter", "pattern_type_filter"),
    *("principal_filter", "host_filter", "operation", "permission_type"),
)


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


class Side:
    """A broker that runs, whose settings are `SETTINGS`."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = Asker(bootstrap, "admin")
        self._bob = Asker(bootstrap, "bob")
        self.ids: Mapping[str, UUID] = {}
        """Of the topics, in the order of their names."""

    def close(self) -> None:
        """End the connections."""
        self._admin.close()
        self._bob.close()

    def ask(self, request: Any) -> Any:
        """Return the answer to bob, in the form in which it is compared."""
        kind = type(request)
        answer = self._bob.exchange(kind.__api_key__, kind.__version__, encode(request))
        known = {("topic_id", key.bytes): name for name, key in self.ids.items()}
        return Reading(_LEFT_OUT, _ONLY_WHETHER, known=known).read(answer)

    def fetch(self, version: int, names: Sequence[str], session_id: int, epoch: int) -> Any:
        """Return the unchanged answer to bob's Fetch of a session."""
        rows = [{"partition": 0, "partition_max_bytes": 1000}]
        topics = [
            {"topic": name, "topic_id": self.ids[name].bytes, "partitions": rows} for name in names
        ]
        asked = {"session_id": session_id, "session_epoch": epoch, "topics": topics}
        return self._bob.ask("Fetch", version, asked)

    def name_of(self, topic: Any) -> str:
        """Return the name of a topic in the answer to a Fetch."""
        names = {topic_id.bytes: name for name, topic_id in self.ids.items()}
        return topic["topic"] or names[topic["topic_id"]]

    def prepare(self) -> None:
        """Make topics, groups with offsets, and transactional ids."""
        self.mend()
        rows = [{"partition_index": 0, "committed_offset": 0}]
        offsets = [{"name": name, "partitions": rows} for name in TOPICS]
        for group in GROUPS:
            self._insist(
                ("OffsetCommit", 8, {"group_id": group, "topics": offsets}),
                lambda answer: _has_no_error(answer["topics"]),
                (0, group),
            )
        for name in IDS:
            asked = {"transactional_id": name, "transaction_timeout_ms": 60_000}
            self._insist(
                ("InitProducerId", 4, asked), lambda answer: not answer["error_code"], (1, name)
            )

    def mend(self) -> None:
        """Restore the topics that bob has created, enlarged or deleted."""
        wait_until(self._mended, "the topics to exist", timeout=30)

    def set_rules(self, wanted: set[Rule]) -> None:
        """Replace all rules by these."""
        there = self._rules()
        if gone := there - wanted:
            filters = [dict(zip(_FILTER, rule, strict=True)) for rule in gone]
            self._admin.ask("DeleteAcls", 3, {"filters": filters})
        if new := wanted - there:
            creations = [dict(zip(_RULE, rule, strict=True)) for rule in new]
            self._admin.ask("CreateAcls", 3, {"creations": creations})
        wait_until(self._rules, "the rules are told", lambda seen: seen == wanted, timeout=30)

    def _rules(self) -> set[Rule]:
        every = dict(zip(_FILTER, (1, None, 1, None, None, 1, 1), strict=True))
        answer = self._admin.ask("DescribeAcls", 3, every)
        return {
            (
                *(row[name] for name in ("resource_type", "resource_name", "pattern_type")),
                *(acl[name] for name in ("principal", "host", "operation", "permission_type")),
            )
            for row in answer["resources"]
            for acl in row["acls"]
        }

    def _mended(self) -> bool:
        """Check the topics, and restore them if need be."""
        asked = {"topics": None, "allow_auto_topic_creation": False}
        topics = self._admin.ask("Metadata", 12, asked)["topics"]
        rows = {each["name"]: each for each in topics if not each["name"].startswith("__")}
        wrong = [name for name in rows if len(rows[name]["partitions"]) != TOPICS.get(name)]
        if wrong:
            self._admin.ask("DeleteTopics", 5, {"topic_names": wrong, "timeout_ms": _TIMEOUT_MS})
        missing = [
            {"name": name, "num_partitions": TOPICS[name], "replication_factor": 1}
            for name in TOPICS
            if name not in rows
        ]
        if missing:
            self._admin.ask("CreateTopics", 5, {"topics": missing, "timeout_ms": _TIMEOUT_MS})
        self.ids = {name: UUID(bytes=rows[name]["topic_id"]) for name in sorted(rows)}
        return not wrong and not missing and all(map(_is_led, rows.values()))

    def _insist(
        self,
        request: tuple[str, int, Mapping[str, Any]],
        holds: Callable[[Any], object],
        key: tuple[int, str],
    ) -> None:
        """Send a request until it succeeds; the coordinator may have to load first."""

        def look() -> Any:
            asked = {"key_type": key[0], "coordinator_keys": [key[1]]}
            self._admin.ask("FindCoordinator", 4, asked)
            return self._admin.ask(*request)

        wait_until(look, f"{request[0]} is served", holds, timeout=60)


def _is_led(topic: Any) -> bool:
    return all(each["leader_id"] >= 0 for each in topic["partitions"])


def _has_no_error(topics: Any) -> bool:
    return not any(each["error_code"] for topic in topics for each in topic["partitions"])
