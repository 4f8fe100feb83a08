"""When a group's regular expressions are matched against the topics, and what follows from it.

Kafka's GroupMetadataManager.maybeUpdateRegularExpressions and handleRegularExpressionsResult. A
heartbeat only requests the matching. The matching runs a moment later, for all expressions of the
group at once, and not again within ten seconds. It runs again for new topics, and after
group.consumer.regex.refresh.interval.ms. The epoch rises with the result, so members see it one
heartbeat later.
"""

from collections.abc import Mapping
from typing import Final

from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.policy import World
from siltstone.broker.groups.consumer.target import bump_epoch, is_hash_current
from siltstone.protocol.coordinator.consumer_group_records import RecordType, ResolvedRegex

PAUSE_MS: Final = 10_000


def last_resolved_ms(group: ConsumerGroup) -> int | None:
    """Return when the expressions of a group were last matched; None if they never were."""
    return next((each.timestamp_ms for each in group.regexes.values()), None)


def find_stale(group: ConsumerGroup, last_ms: int | None, world: World) -> frozenset[str]:
    """Return the expressions to match after a heartbeat: all of them or none.

    ``last_ms`` is the time of the last matching before the heartbeat.
    """
    subscribed = frozenset(group.subscribers)
    if not subscribed or (last_ms is not None and world.now_ms <= last_ms + PAUSE_MS):
        return frozenset()
    is_stale = (
        subscribed != group.regexes.keys()
        or group.topics_matched < world.regexes.newest(world.image)
        or last_ms is None
        or world.now_ms > last_ms + world.policy.regex_refresh_interval_ms
    )
    return subscribed if is_stale else frozenset()


def take_matches(
    changes: Changes, matches: Mapping[str, frozenset[str]], version: int, world: World
) -> None:
    """Note which topics expressions match as of a version; raise the epoch if that has changed."""
    group = changes.group
    is_other = False
    for regex, topics in matches.items():
        if not group.count_subscribers(regex):
            continue  # no member subscribes to it any more
        before = group.regexes.get(regex)
        is_other = is_other or topics != (frozenset() if before is None else before.topics)
        resolved = ResolvedRegex(topics, version, world.now_ms)
        changes.put(RecordType.REGULAR_EXPRESSION, regex, resolved)
    group.topics_matched = version
    if is_other or not is_hash_current(group, world.image):
        bump_epoch(changes, world)
