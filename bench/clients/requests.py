"""One request of each kind, of one element and of many: what is asked and in which surroundings."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from bench.clients import messages
from bench.clients.messages import message
from bench.clients.scripts import find_refusal
from bench.clients.topics import (
    TIMEOUT,
    await_producer_ids,
    fill_empty,
    init_producer_id,
    list_offsets,
    make_topics,
    topic_ids,
)
from bench.frames import batch_of
from bench.group_cases import await_coordinator
from bench.group_requests import enter, fetch_offsets, heartbeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.connection import Connection

HUNDRED: Final = "ask-hundred"
"""A topic of a hundred partitions, each with one record."""

MANY: Final = tuple(f"ask-many-{number:03}" for number in range(100))
"""A hundred topics of one partition, each with one record."""

GROUPS: Final = tuple(f"ask-group-{number:03}" for number in range(100))
"""A hundred groups; each has committed all of ``HUNDRED``. The first has a member that beats."""

CONSUMERS: Final = tuple(f"ask-consumers-{number:03}" for number in range(100))
"""How a hundred groups of the consumer protocol begin their names."""

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_SET: Final = 0
_LEAVING: Final = -1
_EVERYTHING: Final = 1 << 20


class Surroundings:
    """The topics and groups that the requests are about, on one broker."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        make_topics(connection, {HUNDRED: 100, **dict.fromkeys(MANY, 1)})
        self.ids = topic_ids(connection, [HUNDRED, *MANY])
        batch = batch_of(0, 100, int(time.time() * 1000))
        for name, count in ((HUNDRED, 100), *((name, 1) for name in MANY)):
            fill_empty(connection, name, self.ids[name], range(count), batch)
        await_coordinator(connection, GROUPS)
        await_producer_ids(connection)
        for group in GROUPS:
            refusal = find_refusal(connection.ask(self.offset_commit(100, group)))
            if refusal is not None:
                raise RuntimeError(f"{group} could not commit: {refusal}")
        self._beating = f"ask-beating-{time.time_ns()}"
        connection.ask_until(
            fetch_offsets([self._beating], HUNDRED, 0),
            lambda answer: find_refusal(answer) is None,
        )
        self._member = enter(connection, self._beating, HUNDRED)
        self._consumers: list[str] = []

    def metadata(self, topics: Sequence[str] | None) -> Any:
        """Ask for some topics, or for all."""
        wanted = None
        if topics is not None:
            wanted = [{"topic_id": None, "name": name} for name in topics]
        return message(
            messages.METADATA,
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    def list_offsets(self, count: int) -> Any:
        """Ask for the ends of so many partitions."""
        return list_offsets({HUNDRED: range(count)})

    def fetch(self, count: int, offset: int) -> Any:
        """Fetch so many partitions without a session: from 0 there is a record, from 1 none."""
        return message(
            messages.FETCH,
            max_wait=timedelta(0),
            min_bytes=1,
            max_bytes=50 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                {
                    "topic_id": self.ids[HUNDRED],
                    "partitions": [
                        {
                            "partition": index,
                            "fetch_offset": offset,
                            "partition_max_bytes": _EVERYTHING,
                        }
                        for index in range(count)
                    ],
                }
            ],
            forgotten_topics_data=(),
            rack_id="",
        )

    def offset_fetch(self, count: int) -> Any:
        """Ask what a group has committed for so many partitions."""
        topics = [{"topic_id": self.ids[HUNDRED], "partition_indexes": tuple(range(count))}]
        group = {"group_id": GROUPS[0], "member_id": None, "member_epoch": -1, "topics": topics}
        return message(messages.OFFSET_FETCH, groups=[group], require_stable=True)

    def offset_commit(self, count: int, group: str = GROUPS[0]) -> Any:
        """Commit so many partitions in a group without members."""
        partitions = [
            {
                "partition_index": index,
                "committed_offset": 1,
                "committed_leader_epoch": 0,
                "committed_metadata": "",
            }
            for index in range(count)
        ]
        return message(
            messages.OFFSET_COMMIT,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"topic_id": self.ids[HUNDRED], "partitions": partitions}],
        )

    def offset_delete(self, count: int) -> Any:
        """Delete what a group has committed; from the second time on there is nothing left."""
        partitions = [{"partition_index": index} for index in range(count)]
        return message(
            messages.OFFSET_DELETE,
            group_id=GROUPS[-1],
            topics=[{"name": HUNDRED, "partitions": partitions}],
        )

    def heartbeat(self) -> Any:
        """Beat as the member of a classic group."""
        return heartbeat(self._beating, *self._member)

    def find_coordinator(self, count: int) -> Any:
        """Ask for the coordinator of so many groups."""
        return message(messages.FIND_COORDINATOR, key_type=0, coordinator_keys=GROUPS[:count])

    def describe_groups(self, count: int) -> Any:
        """Ask for so many groups without members."""
        return message(
            messages.DESCRIBE_GROUPS, groups=GROUPS[:count], include_authorized_operations=False
        )

    def list_groups(self) -> Any:
        """Ask for all groups."""
        return message(messages.LIST_GROUPS)

    def consumer_heartbeat(self) -> Any:
        """Beat as the member of a new group of the consumer protocol, with nothing new."""
        group = f"{CONSUMERS[0]}-{time.time_ns()}"
        member_id, epoch = self._enter_consumers(group)
        return message(
            messages.CONSUMER_GROUP_HEARTBEAT,
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None,
        )

    def consumer_describe(self, count: int) -> Any:
        """Ask for so many groups of the consumer protocol that a member has left."""
        if not self._consumers:
            self._consumers = [f"{name}-{time.time_ns()}" for name in CONSUMERS]
            for group in self._consumers:
                self._leave_consumers(group, self._enter_consumers(group)[0])
                self.connection.ask(self.offset_commit(1, group))  # else Kafka forgets the group
        return message(
            messages.CONSUMER_GROUP_DESCRIBE,
            group_ids=tuple(self._consumers[:count]),
            include_authorized_operations=False,
        )

    def api_versions(self) -> Any:
        """Ask what a client asks first."""
        return message(
            messages.API_VERSIONS, client_software_name="bench", client_software_version="1"
        )

    def init_producer_id(self) -> Any:
        """Ask for a producer id."""
        return init_producer_id()

    def leader_epochs(self, count: int) -> Any:
        """Ask where the first epoch of so many partitions ends."""
        partitions = [
            {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0}
            for index in range(count)
        ]
        return message(
            messages.OFFSET_FOR_LEADER_EPOCH,
            replica_id=-1,
            topics=[{"topic": HUNDRED, "partitions": partitions}],
        )

    def describe_configs(self, count: int) -> Any:
        """Ask for all settings of so many topics."""
        return self._describe_configs(_TOPIC_RESOURCE, MANY[:count])

    def describe_broker_configs(self) -> Any:
        """Ask for all settings of the broker."""
        return self._describe_configs(_BROKER_RESOURCE, ["1"])

    def describe_log_dirs(self, count: int) -> Any:
        """Ask for the sizes of so many partitions."""
        return message(
            messages.DESCRIBE_LOG_DIRS,
            topics=[{"topic": HUNDRED, "partitions": tuple(range(count))}],
        )

    def describe_topic(self, topics: Sequence[str]) -> Any:
        """Ask for topics as the admin client of today does."""
        return message(
            messages.DESCRIBE_TOPIC_PARTITIONS,
            topics=[{"name": name} for name in topics],
            response_partition_limit=2000,
            cursor=None,
        )

    def describe_producers(self, count: int) -> Any:
        """Ask for the producers of so many partitions."""
        topics = [{"name": HUNDRED, "partition_indexes": tuple(range(count))}]
        return message(messages.DESCRIBE_PRODUCERS, topics=topics)

    def delete_records(self, count: int) -> Any:
        """Delete the records before offset 0 of so many partitions, which have no such record."""
        partitions = [{"partition_index": index, "offset": 0} for index in range(count)]
        return message(
            messages.DELETE_RECORDS,
            topics=[{"name": HUNDRED, "partitions": partitions}],
            timeout=TIMEOUT,
        )

    def create_topics(self, count: int) -> Any:
        """Ask whether so many topics could be made."""
        return message(
            messages.CREATE_TOPICS,
            topics=[
                {
                    "name": f"ask-new-{number:03}",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": (),
                    "configs": (),
                }
                for number in range(count)
            ],
            timeout=TIMEOUT,
            validate_only=True,
        )

    def alter_configs(self, count: int) -> Any:
        """Ask whether a setting of so many topics could be altered."""
        config = {"name": "retention.ms", "config_operation": _SET, "value": "1000000"}
        return message(
            messages.INCREMENTAL_ALTER_CONFIGS,
            resources=[
                {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configs": [config]}
                for name in MANY[:count]
            ],
            validate_only=True,
        )

    def list_reassignments(self) -> Any:
        """Ask which partitions move."""
        return message(messages.LIST_PARTITION_REASSIGNMENTS, timeout=TIMEOUT, topics=None)

    def describe_quorum(self) -> Any:
        """Ask for the controllers."""
        topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        return message(messages.DESCRIBE_QUORUM, topics=[topic])

    def describe_cluster(self) -> Any:
        """Ask for the brokers."""
        return message(
            messages.DESCRIBE_CLUSTER,
            include_cluster_authorized_operations=False,
            include_fenced_brokers=False,
        )

    def list_transactions(self) -> Any:
        """Ask for all transactions."""
        return message(messages.LIST_TRANSACTIONS)

    def list_config_resources(self) -> Any:
        """Ask what has settings of its own."""
        return message(messages.LIST_CONFIG_RESOURCES, resource_types=())

    @staticmethod
    def _describe_configs(kind: int, names: Sequence[str]) -> Any:
        return message(
            messages.DESCRIBE_CONFIGS,
            resources=[
                {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                for name in names
            ],
            include_synonyms=False,
            include_documentation=False,
        )

    def _enter_consumers(self, group: str) -> tuple[str, int]:
        answer = self.connection.ask_until(
            message(
                messages.CONSUMER_GROUP_HEARTBEAT,
                group_id=group,
                member_id=f"member-of-{group}",
                member_epoch=0,
                rebalance_timeout=timedelta(minutes=5),
                subscribed_topic_names=(HUNDRED,),
                topic_partitions=(),
            ),
            lambda answer: find_refusal(answer) is None,
        )
        return answer.member_id, answer.member_epoch

    def _leave_consumers(self, group: str, member_id: str) -> None:
        self.connection.ask(
            message(
                messages.CONSUMER_GROUP_HEARTBEAT,
                group_id=group,
                member_id=member_id,
                member_epoch=_LEAVING,
                topic_partitions=None,
            )
        )
