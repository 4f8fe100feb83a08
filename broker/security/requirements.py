"""The rights that each API needs: the operation, the resource, and where the request names it.

There is one row for each API that is served (Kafka: KafkaApis, AclApis, ControllerApis,
AuthHelper). Documents and tests are made from the rows; handlers check rights themselves. A refused
client gets the error in the same place as in Kafka: for the whole answer, or in the element that
names the resource. Or it gets no error, since the element is left out.
"""

from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from siltstone.broker.security.acl import Operation, ResourceType


class Refusal(Enum):
    """The place in the answer where a client gets the refusal."""

    WHOLE = "whole"
    """The answer has one error, or the same one in every element."""

    ELEMENT = "element"
    """The element that names the resource has the error; the others are served."""

    OMITTED = "omitted"
    """The element is left out, so that nobody learns that the resource exists."""


class Need(NamedTuple):
    """One thing that must be allowed.

    ``names`` has the paths to the resource's names in the request, with a dot for each step into an
    array or a structure; it is empty for the cluster, which has one name. ``when`` says in words
    which requests need the right; it is empty if all do. Of the needs of an API that have the same
    ``instead``, one is enough.
    """

    operation: Operation
    resource: ResourceType
    names: tuple[str, ...] = ()
    refusal: Refusal = Refusal.WHOLE
    when: str = ""
    instead: str = ""


_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_TRANSACTION: Final = ResourceType.TRANSACTIONAL_ID
_O: Final = Operation


def _need(
    resource: ResourceType,
    refusal: Refusal,
    operation: Operation,
    *names: str,
    when: str = "",
    instead: str = "",
) -> Need:
    return Need(operation, resource, names, refusal, when, instead)


_cluster = partial(_need, ResourceType.CLUSTER, Refusal.WHOLE)
_topics = partial(_need, _TOPIC, Refusal.ELEMENT)
_group = partial(_need, _GROUP, Refusal.WHOLE)
_transaction = partial(_need, _TRANSACTION, Refusal.WHOLE)
_groups = partial(_need, _GROUP, Refusal.ELEMENT)
_transactions = partial(_need, _TRANSACTION, Refusal.ELEMENT)

_ALTER_CONFIGS: Final = (
    _topics(_O.ALTER_CONFIGS, "resources.resource_name", when="of topics"),
    _groups(_O.ALTER_CONFIGS, "resources.resource_name", when="of groups"),
    _cluster(_O.ALTER_CONFIGS, when="of brokers and client metrics"),
)
_READ_GROUP: Final = (_group(_O.READ, "group_id"),)

REQUIREMENTS: Final[dict[int, tuple[Need, ...]]] = {
    0: (  # Produce
        _transaction(_O.WRITE, "transactional_id", when="in a transaction"),
        _topics(_O.WRITE, "topic_data.name"),
    ),
    1: (  # Fetch: a client that calls itself a replica must be a broker (CVE-2018-1288)
        _cluster(_O.CLUSTER_ACTION, when="by a replica"),
        _topics(_O.READ, "topics.topic", when="by a consumer"),
    ),
    2: (_topics(_O.DESCRIBE, "topics.name"),),
    3: (  # Metadata
        _topics(_O.DESCRIBE, "topics.name"),
        _cluster(_O.CREATE, when="for a topic that asking creates", instead="create"),
        _topics(_O.CREATE, "topics.name", when="for a topic that asking creates", instead="create"),
    ),
    8: (*_READ_GROUP, _topics(_O.READ, "topics.name")),
    9: (  # OffsetFetch
        _groups(_O.DESCRIBE, "group_id", "groups.group_id"),
        _topics(_O.DESCRIBE, "topics.name", "groups.topics.name"),
    ),
    10: (  # FindCoordinator
        _groups(_O.DESCRIBE, "key", "coordinator_keys", when="of a group"),
        _transactions(_O.DESCRIBE, "key", "coordinator_keys", when="of a transaction"),
        _cluster(_O.CLUSTER_ACTION, when="of a share group"),
    ),
    11: _READ_GROUP,
    12: _READ_GROUP,
    13: _READ_GROUP,
    14: _READ_GROUP,
    15: (_groups(_O.DESCRIBE, "groups"),),
    16: (  # ListGroups
        _cluster(_O.DESCRIBE, instead="describe"),
        Need(_O.DESCRIBE, _GROUP, refusal=Refusal.OMITTED, instead="describe"),
    ),
    17: (),
    18: (),
    19: (  # CreateTopics
        _cluster(_O.CREATE, instead="create"),
        _topics(_O.CREATE, "topics.name", instead="create"),
        _topics(_O.DESCRIBE_CONFIGS, "topics.name", when="to see the settings"),
    ),
    20: (  # DeleteTopics
        _cluster(_O.DELETE, instead="delete"),
        _topics(
            _O.DESCRIBE,
            "topics.name",
            "topic_names",
            when="by name, or to be told the name of an id",
        ),
        _topics(_O.DELETE, "topics.name", "topic_names", instead="delete"),
    ),
    21: (_topics(_O.DELETE, "topics.name"),),
    22: (  # InitProducerId (CVE-2018-17196: also without a transaction)
        _transaction(_O.WRITE, "transactional_id", when="for transactions"),
        _transaction(
            _O.TWO_PHASE_COMMIT, "transactional_id", when="for transactions of two phases"
        ),
        _cluster(_O.IDEMPOTENT_WRITE, when="without transactions", instead="write"),
        Need(_O.WRITE, _TOPIC, when="without transactions, any topic", instead="write"),
    ),
    23: (  # OffsetForLeaderEpoch
        _cluster(_O.CLUSTER_ACTION, instead="describe"),
        _topics(_O.DESCRIBE, "topics.topic", instead="describe"),
    ),
    24: (  # AddPartitionsToTxn
        _cluster(_O.CLUSTER_ACTION, when="from version 4, which brokers speak"),
        _transactions(_O.WRITE, "v3_and_below_transactional_id", "transactions.transactional_id"),
        _topics(_O.WRITE, "v3_and_below_topics.name", "transactions.topics.name"),
    ),
    25: (_transaction(_O.WRITE, "transactional_id"), *_READ_GROUP),
    26: (_transaction(_O.WRITE, "transactional_id"),),
    27: (_cluster(_O.ALTER, instead="markers"), _cluster(_O.CLUSTER_ACTION, instead="markers")),
    28: (  # TxnOffsetCommit
        _transaction(_O.WRITE, "transactional_id"),
        *_READ_GROUP,
        _topics(_O.READ, "topics.name"),
    ),
    29: (_cluster(_O.DESCRIBE),),
    30: (_cluster(_O.ALTER),),
    31: (_cluster(_O.ALTER),),
    32: (  # DescribeConfigs
        _topics(_O.DESCRIBE_CONFIGS, "resources.resource_name", when="of topics"),
        _groups(_O.DESCRIBE_CONFIGS, "resources.resource_name", when="of groups"),
        _cluster(_O.DESCRIBE_CONFIGS, when="of brokers and client metrics"),
    ),
    33: _ALTER_CONFIGS,
    34: (_cluster(_O.ALTER),),
    35: (_cluster(_O.DESCRIBE),),
    36: (),
    37: (_topics(_O.ALTER, "topics.name"),),
    42: (_groups(_O.DELETE, "groups_names"),),
    43: (_cluster(_O.ALTER),),
    44: _ALTER_CONFIGS,
    45: (_cluster(_O.ALTER),),
    46: (_cluster(_O.DESCRIBE),),
    47: (_group(_O.DELETE, "group_id"), _topics(_O.READ, "topics.name")),
    48: (_cluster(_O.DESCRIBE_CONFIGS),),
    49: (_cluster(_O.ALTER_CONFIGS),),
    50: (_cluster(_O.DESCRIBE),),
    51: (_cluster(_O.ALTER),),
    55: (_cluster(_O.DESCRIBE),),
    57: (_cluster(_O.ALTER),),
    60: (),
    61: (_topics(_O.READ, "topics.name"),),
    64: (_cluster(_O.ALTER),),
    65: (  # DescribeTransactions
        _transactions(_O.DESCRIBE, "transactional_ids"),
        Need(_O.DESCRIBE, _TOPIC, refusal=Refusal.OMITTED, when="of the topics in it"),
    ),
    66: (Need(_O.DESCRIBE, _TRANSACTION, refusal=Refusal.OMITTED),),
    68: (  # ConsumerGroupHeartbeat
        *_READ_GROUP,
        Need(_O.DESCRIBE, _TOPIC, ("subscribed_topic_names",)),
        Need(_O.DESCRIBE, _TOPIC, refusal=Refusal.OMITTED, when="that an expression matches"),
    ),
    69: (  # ConsumerGroupDescribe
        _groups(_O.DESCRIBE, "group_ids"),
        Need(_O.DESCRIBE, _TOPIC, refusal=Refusal.ELEMENT, when="of all topics of its members"),
    ),
    71: (),
    72: (),
    74: (_cluster(_O.DESCRIBE_CONFIGS),),
    75: (_topics(_O.DESCRIBE, "topics.name"),),
    76: (*_READ_GROUP, Need(_O.DESCRIBE, _TOPIC, ("subscribed_topic_names",))),
    77: (  # ShareGroupDescribe
        _groups(_O.DESCRIBE, "group_ids"),
        Need(_O.DESCRIBE, _TOPIC, refusal=Refusal.ELEMENT, when="of all topics that are assigned"),
    ),
    78: (*_READ_GROUP, _topics(_O.READ, when="of the partitions that it reads")),
    79: (*_READ_GROUP, _topics(_O.READ, when="of the partitions that it names")),
    **dict.fromkeys(range(83, 88), (_cluster(_O.CLUSTER_ACTION),)),  # of the persister
    90: (  # DescribeShareGroupOffsets
        _groups(_O.DESCRIBE, "groups.group_id"),
        _topics(_O.DESCRIBE, "groups.topics.topic_name"),
    ),
    91: (*_READ_GROUP, _topics(_O.READ, "topics.topic_name")),
    92: (_group(_O.DELETE, "group_id"), _topics(_O.READ, "topics.topic_name")),
    88: (  # StreamsGroupHeartbeat
        *_READ_GROUP,
        Need(_O.DESCRIBE, _TOPIC, when="of all topics of the topology"),
        _cluster(_O.CREATE, when="for internal topics that do not exist", instead="create"),
        Need(_O.CREATE, _TOPIC, when="for internal topics that do not exist", instead="create"),
    ),
    89: (  # StreamsGroupDescribe
        _groups(_O.DESCRIBE, "group_ids"),
        Need(_O.DESCRIBE, _TOPIC, refusal=Refusal.ELEMENT, when="of all topics of the topology"),
    ),
    93: _READ_GROUP,
    94: (_cluster(_O.ALTER),),
}
