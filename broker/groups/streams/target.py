"""The target assignment of a streams group: when it is computed.

It is computed at a heartbeat after the group's epoch has risen, at most once in
group.streams.assignment.interval.ms; the first one of an empty group waits for more members, for
group.streams.initial.rebalance.delay.ms.
"""

from siltstone.broker.groups.streams.assignor import (
    MemberSpec,
    SubtopologySpec,
    assign_sticky,
)
from siltstone.broker.groups.streams.changes import Changes
from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.member import Member
from siltstone.broker.groups.streams.policy import World
from siltstone.broker.groups.streams.topology import ConfiguredTopology, Status, StatusCode
from siltstone.protocol.coordinator.streams_group_records import (
    RecordType,
    TargetMetadata,
    Tasks,
)


def follow_epoch(changes: Changes, configured: ConfiguredTopology, world: World) -> list[Status]:
    """Compute the target assignment for the group's epoch, or return why it has to wait."""
    group = changes.group
    if group.is_delayed:
        return [_delayed("initial rebalance delay")]
    if group.target_epoch >= group.epoch:
        return []
    if not _may_assign(group, world):
        return [_delayed("assignment interval")]
    assign(changes, configured, world)
    return []


def assign(changes: Changes, configured: ConfiguredTopology, world: World) -> None:
    """Compute the target assignment; without all of its topics, the application has no tasks."""
    group = changes.group
    members = {each.id: _spec(group, each) for each in group.members.values()}
    targets = dict.fromkeys(members, Tasks())
    if configured.is_ready:
        subtopologies = {
            name: SubtopologySpec(each.tasks, each.is_stateful)
            for name, each in configured.subtopologies.items()
        }
        targets = assign_sticky(members, subtopologies, world.policy.standby_replicas)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            changes.put(RecordType.TARGET_MEMBER, member_id, target)
    changes.put(RecordType.TARGET_METADATA, "", TargetMetadata(group.epoch, world.now_ms))


def _spec(group: StreamsGroup, member: Member) -> MemberSpec:
    held = member.current.assigned
    active = {name: frozenset(epochs) for name, epochs in held.active.items()}
    offsets, _ = group.offsets.get(member.id, ({}, {}))
    return MemberSpec(member.process_id, Tasks(active, held.standby, held.warmup), offsets)


def _delayed(by: str) -> Status:
    return Status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {by}.")


def _may_assign(group: StreamsGroup, world: World) -> bool:
    """Tell whether a new target is due: the last is old enough, missing, or of unknown time."""
    interval = world.policy.assignment_interval_ms
    last = group.target.assignment_timestamp
    return not last or not interval or world.now_ms >= last + interval
