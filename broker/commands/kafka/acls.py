"""``siltstone acls``: lists, adds and removes ACLs of a running broker, as ``kafka-acls`` does."""

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple

from siltstone.broker.commands.kafka.broker import Broker, Refused, add_connection, why
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.terminal import complain, write_json, write_table
from siltstone.broker.security.acl import Operation, PatternType, Permission, ResourceType
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.messages import create_acls, delete_acls, describe_acls
from siltstone.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from siltstone.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from siltstone.protocol.messages.describe_acls import DescribeAclsRequest

ACTIONS: Final = ("list", "add", "remove")
_LIST: Final = Exchange(describe_acls.REQUEST, describe_acls.RESPONSE, 3)
_ADD: Final = Exchange(create_acls.REQUEST, create_acls.RESPONSE, 3)
_REMOVE: Final = Exchange(delete_acls.REQUEST, delete_acls.RESPONSE, 3)
_CLUSTER: Final = "kafka-cluster"
_NAMED: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "user": ResourceType.USER,
}
_EVERY: Final[list[tuple[int, str | None]]] = [(int(ResourceType.ANY), None)]
_OPERATIONS: Final = [
    each.name.lower().replace("_", "-") for each in Operation if each > Operation.ANY
]


class _Rule(NamedTuple):
    """A rule, or a filter of rules whose fields may be None or ANY, in the order of requests."""

    resource: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def row(self) -> dict[str, Any]:
        """Return the rule as it is printed."""
        return {
            "permission": Permission(self.permission).name.lower(),
            "principal": self.principal,
            "host": self.host,
            "operation": Operation(self.operation).name.lower().replace("_", "-"),
            "resource": ResourceType(self.resource).name.lower().replace("_", "-"),
            "name": self.name,
            "pattern": PatternType(self.pattern).name.lower(),
        }


def add_acls(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to do, with which rules, and the broker."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    for name, words in (("allow", "a rule that permits"), ("deny", "a rule that forbids")):
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="PRINCIPAL",
            help=f"{words}, such as User:alice or User:*; repeatable",
        )  # fmt: skip
    parser.add_argument(
        "--operation", action="append", type=_operation, metavar="OPERATION",
        help=f"{', '.join(_OPERATIONS)}; repeatable",
    )  # fmt: skip
    for name in _NAMED:
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="NAME", help="repeatable; * for all"
        )
    parser.add_argument("--cluster", action="store_true", help="the broker itself")
    parser.add_argument("--prefixed", action="store_true", help="names are beginnings of names")
    parser.add_argument(
        "--host", action="append", metavar="HOST",
        help="an address or a network, such as 10.0.0.0/8; repeatable (default to add: every host)",
    )  # fmt: skip
    add_connection(parser)


def _operation(text: str) -> str:
    if text not in _OPERATIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(_OPERATIONS)}")
    return text


def run_acls(options: argparse.Namespace) -> int:
    """List, add or remove ACLs; return the exit code."""
    has_all = (options.allow or options.deny) and options.operation and _resources(options)
    if options.action == "add" and not has_all:
        sys.stderr.write(
            "siltstone acls add wants --allow or --deny, --operation, and --topic or its like\n"
        )
        return 2
    if options.action == "remove" and not (has_all or any(_given(options))):
        sys.stderr.write("siltstone acls remove wants to know which: --allow, --topic or others\n")
        return 2
    action = {"list": _list, "add": _add, "remove": _remove}[options.action]
    return run_command(options, lambda broker: action(broker, options))


def _given(options: argparse.Namespace) -> Iterator[Any]:
    yield from (options.allow, options.deny, options.operation, options.host, _resources(options))


def _resources(options: argparse.Namespace) -> list[tuple[int, str | None]]:
    named: list[tuple[int, str | None]] = [
        (int(kind), name)
        for word, kind in _NAMED.items()
        for name in getattr(options, word.replace("-", "_"))
    ]
    return [*named, *([(int(ResourceType.CLUSTER), _CLUSTER)] if options.cluster else [])]


def _rules(options: argparse.Namespace, *, is_filter: bool) -> list[_Rule]:
    """Return the rules that the options describe; what a filter leaves open matches all.

    As with Kafka's tool a name alone is that of literal rules: no prefixed rule goes with them.
    """
    principals = [
        *((int(Permission.ALLOW), each) for each in options.allow),
        *((int(Permission.DENY), each) for each in options.deny),
    ]
    operations = [
        int(Operation[each.upper().replace("-", "_")]) for each in options.operation or ()
    ]
    resources = _resources(options)
    pattern = PatternType.PREFIXED if options.prefixed else PatternType.LITERAL
    if is_filter and not (options.prefixed or resources):
        pattern = PatternType.ANY
    return [
        _Rule(resource, name, int(pattern), principal, host, operation, permission)
        for (permission, principal), operation, (resource, name), host in product(
            principals or [(int(Permission.ANY), None)],
            operations or [int(Operation.ANY)],
            resources or _EVERY,
            options.host or [None if is_filter else "*"],
        )
    ]


def _list(broker: Broker, options: argparse.Namespace) -> int:
    found: dict[_Rule, None] = {}
    for rule in _rules(options, is_filter=True):
        answer = broker.ask(_LIST, DescribeAclsRequest(*rule))
        if answer.error_code:
            raise Refused(why(answer.error_code, answer.error_message, "the list of ACLs"))
        for each in answer.resources:
            pattern = (each.resource_type, each.resource_name, each.pattern_type)
            found |= dict.fromkeys(_Rule(*pattern, *acl) for acl in each.acls)
    _show("acls", sorted(found), options)
    return 0


def _add(broker: Broker, options: argparse.Namespace) -> int:
    rules = _rules(options, is_filter=False)
    answer = broker.ask(_ADD, CreateAclsRequest([AclCreation._make(each) for each in rules]))
    added = []
    for rule, each in zip(rules, answer.results, strict=True):
        if each.error_code:
            complain(why(each.error_code, each.error_message, f"the rule for {rule.principal}"))
        else:
            added.append(rule)
    _show("added", added, options)
    return 0 if len(added) == len(rules) else 1


def _remove(broker: Broker, options: argparse.Namespace) -> int:
    filters = [DeleteAclsFilter(*each) for each in _rules(options, is_filter=True)]
    answer = broker.ask(_REMOVE, DeleteAclsRequest(filters))
    removed: dict[_Rule, None] = {}
    code = 0
    for result in answer.filter_results:
        for each in (result, *result.matching_acls):
            if each.error_code:
                complain(why(each.error_code, each.error_message, "a rule stays"))
                code = 1
            elif each is not result:
                removed[_Rule(*each[2:])] = None
    _show("removed", sorted(removed), options)
    return code


def _show(verb: str, rules: list[_Rule], options: argparse.Namespace) -> None:
    rows = [each.row() for each in rules]
    if options.json:
        write_json({verb: rows})
        return
    heading = ("PERMISSION", "PRINCIPAL", "HOST", "OPERATION", "RESOURCE", "NAME", "PATTERN")
    write_table(heading, [tuple(row.values()) for row in rows])
