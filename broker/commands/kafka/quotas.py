"""``siltstone quotas``: shows and changes quotas of users, clients and addresses.

It stands for ``kafka-configs`` with the entity types ``users``, ``clients`` and ``ips``.
"""

import argparse
import sys
from typing import Any, Final

from siltstone.broker.commands.kafka.broker import Broker, Refused, add_connection, why
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.terminal import write_json, write_table
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.messages import alter_client_quotas, describe_client_quotas
from siltstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from siltstone.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

ACTIONS: Final = ("list", "set")
_LIST: Final = Exchange(describe_client_quotas.REQUEST, describe_client_quotas.RESPONSE, 1)
_SET: Final = Exchange(alter_client_quotas.REQUEST, alter_client_quotas.RESPONSE, 1)
_KINDS: Final = {"user": "user", "client": "client-id", "ip": "ip"}
_DEFAULT: Final = "<default>"
_EXACT, _OF_DEFAULT = 0, 1


def add_quotas(parser: argparse.ArgumentParser) -> None:
    """Add the options: whose quotas, what to change, and the broker."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    for name, words in (
        ("user", "of a user"),
        ("client", "of a client id"),
        ("ip", "of an address"),
    ):
        parser.add_argument(
            f"--{name}", metavar="NAME", help=f"{words}; {_DEFAULT} for all without their own"
        )
    parser.add_argument(
        "--quota", action="append", default=[], metavar="NAME=NUMBER",
        help="such as producer_byte_rate=1048576; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="take a quota away; repeatable"
    )
    add_connection(parser)


def run_quotas(options: argparse.Namespace) -> int:
    """List or set quotas; return the exit code."""
    fault = _find_fault(options)
    if fault is not None:
        sys.stderr.write(f"{fault}\n")
        return 2
    action = {"list": _list, "set": _set}[options.action]
    return run_command(options, lambda broker: action(broker, options))


def _find_fault(options: argparse.Namespace) -> str | None:
    """Return what is wrong with the usage."""
    for each in options.quota:
        name, equals, number = each.partition("=")
        try:
            float(number)
        except ValueError:
            equals = ""
        if not (name and equals):
            return f"--quota {each}: write NAME=NUMBER"
    if options.action == "set" and not (_entity(options) and (options.quota or options.unset)):
        return "siltstone quotas set wants --user, --client or --ip, and --quota or --unset"
    if options.action == "list" and (options.quota or options.unset):
        return "--quota and --unset are for siltstone quotas set alone"
    return None


def _entity(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Return the kinds and names that the options give; the name of a default is None."""
    given = [(kind, getattr(options, word)) for word, kind in _KINDS.items()]
    return [(kind, None if name == _DEFAULT else name) for kind, name in given if name is not None]


def _list(broker: Broker, options: argparse.Namespace) -> int:
    components = [
        ComponentData(kind, _OF_DEFAULT if name is None else _EXACT, name)
        for kind, name in _entity(options)
    ]
    answer = broker.ask(_LIST, DescribeClientQuotasRequest(components, strict=False))
    if answer.error_code:
        raise Refused(why(answer.error_code, answer.error_message, "the quotas"))
    rows: list[dict[str, Any]] = [
        {
            "entity": {each.entity_type: each.entity_name for each in entry.entity},
            "quotas": {each.key: each.value for each in entry.values},
        }
        for entry in answer.entries or ()
    ]
    if options.json:
        write_json({"quotas": rows})
        return 0
    shown = [
        (_text(row["entity"]), name, f"{value:.15g}")
        for row in sorted(rows, key=lambda row: _text(row["entity"]))
        for name, value in sorted(row["quotas"].items())
    ]
    write_table(("OF", "QUOTA", "VALUE"), shown)
    return 0


def _text(entity: dict[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {_DEFAULT if name is None else name}" for kind, name in sorted(entity.items())
    )


def _set(broker: Broker, options: argparse.Namespace) -> int:
    entity = [EntityData(kind, name) for kind, name in _entity(options)]
    changes = [
        *(
            OpData(name, float(value))
            for name, value in (each.split("=") for each in options.quota)
        ),
        *(OpData(name, remove=True) for name in options.unset),
    ]
    entry = EntryData(entity, changes)
    answer = broker.ask(_SET, AlterClientQuotasRequest([entry], validate_only=False))
    for each in answer.entries:
        if each.error_code:
            raise Refused(why(each.error_code, each.error_message, "the quotas stay"))
    return _list(broker, options)
