"""``siltstone groups``: lists and describes groups with their lag, deletes them, sets offsets.

It stands for ``kafka-consumer-groups``, and ``reset`` for its ``--reset-offsets``.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from siltstone.broker.commands.explain_text import counted
from siltstone.broker.commands.kafka.broker import (
    END,
    Broker,
    Refused,
    TopicFacts,
    add_connection,
    report,
    why,
)
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.kafka.offset_words import OFFSET_HELP, BadOffset, Place, read_offset
from siltstone.broker.commands.terminal import paint, write_json, write_table
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.coordinator.consumer_protocol import decode_assignment
from siltstone.protocol.errors import ErrorCode, ProtocolError, visible
from siltstone.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_fetch,
)
from siltstone.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from siltstone.protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.protocol.messages.describe_groups import DescribeGroupsRequest
from siltstone.protocol.messages.list_groups import ListGroupsRequest
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from siltstone.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

ACTIONS: Final = ("list", "describe", "delete", "reset")
_LIST: Final = Exchange(list_groups.REQUEST, list_groups.RESPONSE, 5)
_CLASSIC: Final = Exchange(describe_groups.REQUEST, describe_groups.RESPONSE, 5)
_CONSUMER: Final = Exchange(consumer_group_describe.REQUEST, consumer_group_describe.RESPONSE, 0)
_OFFSETS: Final = Exchange(offset_fetch.REQUEST, offset_fetch.RESPONSE, 8)
_COMMIT: Final = Exchange(offset_commit.REQUEST, offset_commit.RESPONSE, 8)
_DELETE: Final = Exchange(delete_groups.REQUEST, delete_groups.RESPONSE, 2)


def add_groups(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to do, with which groups, and the broker."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument("--to", metavar="OFFSET", help=f"with reset: {OFFSET_HELP}")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        help="with reset: TOPIC or TOPIC-PARTITION (default: all that the group has committed); "
        "repeatable",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with reset: print it, change nothing"
    )
    add_connection(parser)


def run_groups(options: argparse.Namespace) -> int:
    """List, describe, delete or reset groups; return the exit code."""
    if options.action != "list" and not options.names:
        sys.stderr.write(f"siltstone groups {options.action} wants the name of a group\n")
        return 2
    has_own = options.to is not None or options.topic or options.dry_run
    if options.action == "reset" and options.to is None:
        sys.stderr.write("siltstone groups reset wants --to OFFSET\n")
        return 2
    if options.action != "reset" and has_own:
        sys.stderr.write("--to, --topic and --dry-run are for siltstone groups reset alone\n")
        return 2
    try:
        options.find = None if options.to is None else read_offset(options.to)
    except BadOffset as error:
        sys.stderr.write(f"--to {error}\n")
        return 2
    actions = {"list": _list, "describe": _describe, "delete": _delete, "reset": _reset}
    action = actions[options.action]
    return run_command(options, lambda broker: action(broker, options))


def _list(broker: Broker, options: argparse.Namespace) -> int:
    answer = broker.ask(_LIST, ListGroupsRequest())
    if answer.error_code:
        raise Refused(why(answer.error_code, None, "the list of groups"))
    rows = []
    there = broker.topics()
    for each in sorted(answer.groups, key=lambda each: each.group_id):
        if options.names and each.group_id not in options.names:
            continue
        lags = [row["lag"] or 0 for row in _lags(broker, each.group_id, there)]
        rows.append(
            {
                "group": each.group_id,
                "state": each.group_state,
                "protocol": each.group_type,
                "partitions": len(lags),
                "lag": sum(lags),
            }
        )
    if options.json:
        write_json({"groups": rows})
        return 0
    write_table(
        ("GROUP", "STATE", "PROTOCOL", "PARTITIONS", "LAG"), [tuple(row.values()) for row in rows]
    )
    return 0


def _describe(broker: Broker, options: argparse.Namespace) -> int:
    told = [_find(broker, name) for name in options.names]
    if options.json:
        write_json({"groups": told})
        return 0
    for group in told:
        lag = sum(row["lag"] or 0 for row in group["offsets"])
        sys.stdout.write(
            f"{visible(group['group'])}: {paint(group['state'], 'bold')}, {group['protocol']}, "
            f"{counted(len(group['members']), 'member')}, lag {lag}\n\n"
        )
        write_table(
            ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST"), list(_rows(group))
        )
        sys.stdout.write("\n")
    return 0


def _rows(group: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each partition, with its member, and for each member without one."""
    owners = {place: member for member in group["members"] for place in _places(member)}
    for row in group["offsets"]:
        owner = owners.get((row["topic"], row["partition"]), {})
        numbers = ("-" if row[name] is None else row[name] for name in ("committed", "end", "lag"))
        who = (owner.get(name, "-") for name in ("client_id", "client_host"))
        yield (row["topic"], row["partition"], *numbers, *who)
    for member in group["members"]:
        if not any(member["assignment"].values()):
            yield (*"-----", member["client_id"], member["client_host"])


def _places(member: dict[str, Any]) -> list[tuple[str, int]]:
    return [(topic, each) for topic, numbers in member["assignment"].items() for each in numbers]


def _delete(broker: Broker, options: argparse.Namespace) -> int:
    for name in options.names:
        broker.find_coordinator(name)
    answer = broker.ask(_DELETE, DeleteGroupsRequest(options.names))
    done = [(each.group_id, each.error_code, None) for each in answer.results]
    return report(options, "deleted", "group", done, key="group")


def _reset(broker: Broker, options: argparse.Namespace) -> int:
    """Set the offsets of groups without members, as ``--to`` says."""
    rows: list[dict[str, Any]] = []
    for name in options.names:
        committed = _offsets_at_rest(broker, name)
        wanted = _wanted(broker, options.topic, committed)
        if not wanted:
            raise Refused(f"group {name} has committed nothing; say which topics by --topic")
        found = options.find(broker, wanted)
        if not options.dry_run:
            _commit(broker, name, found)
        for place in sorted(found):
            moved = {"from": committed.get(place), "to": found[place]}
            rows.append({"group": name, "topic": place[0], "partition": place[1], **moved})
    if options.json:
        write_json({"would_reset" if options.dry_run else "reset": rows})
        return 0
    shown = [tuple("-" if each is None else each for each in row.values()) for row in rows]
    write_table(("GROUP", "TOPIC", "PARTITION", "FROM", "TO"), shown)
    return 0


def _offsets_at_rest(broker: Broker, group_id: str) -> dict[Place, int | None]:
    """Return what a group has committed; it must have no members, and need not exist."""
    group, _ = _find_either(broker, group_id)
    if group.error_code not in {ErrorCode.none, ErrorCode.group_id_not_found}:
        raise Refused(why(group.error_code, None, f"group {group_id}"))
    if group.members:
        raise Refused(why(ErrorCode.non_empty_group, None, f"group {group_id}"))
    rows = _lags(broker, group_id, broker.topics())
    return {(row["topic"], row["partition"]): row["committed"] for row in rows}


def _wanted(
    broker: Broker, names: Iterable[str], committed: Iterable[Place]
) -> dict[str, list[int]]:
    """Return the partitions to set: those of the named topics, or those that were committed."""
    there = broker.topics()
    places = {(name, each) for name, topic in there.items() for each in topic.leaders}
    chosen = set() if names else places & set(committed)
    for name in names:
        named = {place for place in places if place[0] == name}
        named = named or {place for place in places if f"{place[0]}-{place[1]}" == name}
        if not named:
            raise Refused(why(ErrorCode.unknown_topic_or_partition, None, name))
        chosen |= named
    wanted: dict[str, list[int]] = {}
    for topic, number in sorted(chosen):
        wanted.setdefault(topic, []).append(number)
    return wanted


def _commit(broker: Broker, group_id: str, offsets: Mapping[Place, int]) -> None:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        row = OffsetCommitRequestPartition(number, offset)
        by_topic.setdefault(topic, []).append(row)
    topics = [OffsetCommitRequestTopic(name=name, partitions=by_topic[name]) for name in by_topic]
    answer = broker.ask(_COMMIT, OffsetCommitRequest(group_id=group_id, topics=topics))
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                what = f"offset of group {group_id} for {topic.name}-{each.partition_index}"
                raise Refused(why(each.error_code, None, what))


def _find_either(broker: Broker, group_id: str) -> tuple[Any, str]:
    """Return the broker's answer about a group, and which protocol the group has."""
    broker.find_coordinator(group_id)
    (group,) = broker.ask(_CONSUMER, ConsumerGroupDescribeRequest((group_id,))).groups
    if group.error_code != ErrorCode.group_id_not_found:
        return group, "consumer"
    (group,) = broker.ask(_CLASSIC, DescribeGroupsRequest((group_id,))).groups
    return group, "classic"


def _find(broker: Broker, group_id: str) -> dict[str, Any]:
    """Return a group of either protocol, with its members and offsets."""
    group, protocol = _find_either(broker, group_id)
    if group.error_code:
        raise Refused(why(group.error_code, None, f"group {group_id}"))
    read = _of_consumer if protocol == "consumer" else _of_classic
    members = [
        {
            "member": each.member_id,
            "client_id": each.client_id,
            "client_host": each.client_host,
            "assignment": read(each),
        }
        for each in group.members
    ]
    assigned = [place for member in members for place in _places(member)]
    offsets = list(_lags(broker, group_id, broker.topics(), assigned))
    if group.group_state == "Dead" and not offsets:
        raise Refused(why(ErrorCode.group_id_not_found, None, f"group {group_id}"))
    return {
        "group": group_id,
        "state": group.group_state,
        "protocol": protocol,
        "members": members,
        "offsets": offsets,
    }


def _of_consumer(member: Any) -> dict[str, list[int]]:
    return {each.topic_name: list(each.partitions) for each in member.assignment.topic_partitions}


def _of_classic(member: Any) -> dict[str, list[int]]:
    try:
        assigned = decode_assignment(member.member_assignment).partitions
    except ProtocolError:
        return {}  # not a group of consumers, or no assignment yet
    return {topic: sorted(numbers) for topic, numbers in assigned.items()}


def _lags(
    broker: Broker,
    group_id: str,
    there: Mapping[str, TopicFacts],
    assigned: Iterable[tuple[str, int]] = (),
) -> Iterator[dict[str, Any]]:
    """Yield the committed offsets of a group, and their lag.

    Partitions that members have been assigned, but have not committed, are included.
    """
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    (group,) = broker.ask(_OFFSETS, OffsetFetchRequest(groups=(asked,))).groups
    if group.error_code:
        raise Refused(why(group.error_code, None, f"offsets of group {group_id}"))
    committed: dict[tuple[str, int], int | None] = dict.fromkeys(assigned)
    for topic in group.topics:
        for each in topic.partitions:
            committed[topic.name, each.partition_index] = each.committed_offset
    wanted: dict[str, list[int]] = {}
    for name, number in committed:
        if name in there and number in there[name].leaders:
            wanted.setdefault(name, []).append(number)
    ends = broker.offsets(wanted, END) if wanted else {}
    for place in sorted(committed):
        offset, end = committed[place], ends.get(place)
        yield {
            "topic": place[0],
            "partition": place[1],
            "committed": offset,
            "end": end,
            "lag": None if offset is None or end is None else max(0, end - offset),
        }
