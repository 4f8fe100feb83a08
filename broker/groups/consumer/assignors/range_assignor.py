"""The assignor "range": each subscriber gets a range of each topic's partitions (RangeAssignor).

The first ``partitions % subscribers`` members get one more. If topics have the same subscribers and
equally many partitions, a member gets the same numbers of each, so that the topics can be joined.
Static members come first, by instance id, since their places last; then the others by member id.
"""

from collections.abc import Mapping
from uuid import UUID

from siltstone.broker.groups.consumer.assignors.spec import Assigned, MemberSpec


def assign(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]
) -> dict[str, Assigned]:
    """Return every member's partitions."""
    ordered = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, count in partition_counts.items():
        subscribers = [each for each in ordered if topic_id in members[each].topic_ids]
        if not subscribers:
            continue
        size, more = divmod(count, len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            stop = start + size + (index < more)
            if start < stop:
                assigned[member_id][topic_id] = frozenset(range(start, stop))
            start = stop
    return dict(assigned)


def _rank(member_id: str, member: MemberSpec) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member_id
