"""CreatePartitions (37), versions 0-3: a topic gets more partitions, never fewer.

v2 compact encoding · v3 quotas.
"""

from operator import itemgetter

from siltstone.broker.process.loop_share import LoopShare, work_off
from siltstone.broker.security.rights import ALTER, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.assignments import check_replicas, check_total
from siltstone.broker.topics.topic import Topic
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add partitions to topics, or only validate the request."""
    share = LoopShare()
    counts = await share.count(request.topics, itemgetter(0))
    results: dict[str, CreatePartitionsTopicResult] = {}
    known = context.services.topics.topics
    total = 0
    for each in request.topics:
        # Kafka refuses a name that occurs twice, whatever rights a client has.
        if counts[each.name] == 1 and not context.may(ALTER, TOPIC, each.name):
            code = errors.TopicAuthorizationFailed.code
            results[each.name] = CreatePartitionsTopicResult(each.name, code, None)
        elif each.name in known:
            total += max(each.count - known[each.name].partitions, 0)
        await share.rest()

    async def extend(wanted: CreatePartitionsTopic) -> None:
        try:
            if counts[wanted.name] > 1:
                raise errors.InvalidRequest(f"topic {wanted.name} is in the request twice")
            check_total(total)
            topic = _check_increase(context, wanted)
            context.take_partitions(wanted.count - topic.partitions)
            if request.validate_only:
                increase = wanted.count - topic.partitions
                context.services.topics.check_count(topic.name, wanted.count)
                context.services.topics.check_room(topic.name, increase, topics=0)
            else:
                await context.services.topics.add_partitions(topic, wanted.count)
        except KafkaError as error:
            results[wanted.name] = CreatePartitionsTopicResult(
                wanted.name, error.code, error.message
            )
        else:
            results[wanted.name] = CreatePartitionsTopicResult(wanted.name)

    wanted = {each.name: each for each in request.topics if each.name not in results}
    await work_off(wanted.values(), extend)
    return CreatePartitionsResponse(results=[results[name] for name in counts])


def _check_increase(context: RequestContext, wanted: CreatePartitionsTopic) -> Topic:
    """Return the topic, if it can get the requested number of partitions."""
    topic = context.services.topics.topics.get(wanted.name)
    if topic is None:
        raise errors.UnknownTopicOrPartition(f"there is no topic {wanted.name}")
    increase = wanted.count - topic.partitions
    if increase <= 0:
        raise errors.InvalidPartitions(
            f"topic {topic.name} has {topic.partitions} partitions; {wanted.count} are no more"
        )
    if wanted.assignments is not None:
        if len(wanted.assignments) != increase:
            raise errors.InvalidReplicaAssignment(
                f"{increase} partitions are added, but {len(wanted.assignments)} are assigned"
            )
        for each in wanted.assignments:
            check_replicas(each.broker_ids, context.services.identity.node_id)
    return topic
