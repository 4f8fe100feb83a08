"""``siltstone configs``: shows and changes dynamic settings of brokers, groups and loggers.

It stands for ``kafka-configs`` with these entity types; `siltstone topics` has those of topics.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from siltstone.broker.commands.kafka.broker import Broker, Refused, add_connection, report, why
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.terminal import write_json, write_table
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.messages import describe_configs, incremental_alter_configs
from siltstone.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

ACTIONS: Final = ("show", "set")
TOPIC: Final = 2
_BROKER: Final = 4
_LOGGERS: Final = 8
_GROUP: Final = 32
_ALTER: Final = Exchange(incremental_alter_configs.REQUEST, incremental_alter_configs.RESPONSE, 1)
_CONFIGS: Final = Exchange(describe_configs.REQUEST, describe_configs.RESPONSE, 4)
_SET, _UNSET = 0, 1
_DEFAULT: Final = 5  # the source of a setting that has its default
_SOURCES: Final = {
    1: "topic", 2: "broker, dynamic", 3: "brokers, dynamic", 4: "broker", 6: "logger", 8: "group"
}  # fmt: skip
_AT_START: Final = {"default", "broker"}
"""Sources of what nobody has set while the broker runs."""


def describe(broker: Broker, kind: int, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the settings of each resource of a kind; a secret one has no value.

    Raises:
        Refused: A resource does not exist, or the client may not read its settings.
    """
    resources = [describe_configs.DescribeConfigsResource(kind, name, None) for name in names]
    answer = broker.ask(_CONFIGS, describe_configs.DescribeConfigsRequest(resources))
    found = {}
    for result in answer.results:
        if result.error_code:
            what = f"settings of {result.resource_name}"
            raise Refused(why(result.error_code, result.error_message, what))
        found[result.resource_name] = [
            {
                "name": each.name,
                "value": None if each.is_sensitive else each.value,
                "source": "default"
                if each.config_source == _DEFAULT
                else _SOURCES.get(each.config_source, "unknown"),
            }
            for each in result.configs
        ]
    return found


def alter(
    broker: Broker, kind: int, names: Iterable[str], given: Sequence[str], unset: Sequence[str]
) -> list[tuple[str, int, str | None]]:
    """Set ``NAME=VALUE`` and take names away; return each resource with the broker's answer."""
    changes = [
        *(
            AlterableConfig(name, _SET, value)
            for name, value in (each.split("=", 1) for each in given)
        ),
        *(AlterableConfig(name, _UNSET, None) for name in unset),
    ]
    resources = [AlterConfigsResource(kind, name, changes) for name in names]
    answer = broker.ask(_ALTER, IncrementalAlterConfigsRequest(resources))
    return [(each.resource_name, each.error_code, each.error_message) for each in answer.responses]


def show_settings(settings: Iterable[dict[str, Any]]) -> None:
    """Print settings as a table."""
    write_table(
        ("SETTING", "VALUE", "FROM"),
        [(each["name"], each["value"], each["source"]) for each in settings],
    )


def add_configs(parser: argparse.ArgumentParser) -> None:
    """Add the options: whose settings, what to change, and the broker."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="show")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--broker", metavar="ID", help="of one broker; without one: of all brokers")
    whose.add_argument("--group", metavar="GROUP", help="of a group")
    whose.add_argument("--loggers", metavar="ID", help="levels of the loggers of a broker")
    parser.add_argument("--all", action="store_true", help="with show: defaults, too")
    parser.add_argument(
        "-c", "--setting", action="append", default=[], metavar="NAME=VALUE", help="repeatable"
    )
    parser.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="take it away; repeatable"
    )
    add_connection(parser)


def run_configs(options: argparse.Namespace) -> int:
    """Show or set dynamic settings; return the exit code."""
    bad = [each for each in options.setting if not each.partition("=")[1]]
    if bad:
        sys.stderr.write(f"-c {bad[0]}: write NAME=VALUE\n")
        return 2
    if options.action == "set" and not (options.setting or options.unset):
        sys.stderr.write("siltstone configs set wants -c NAME=VALUE or --unset NAME\n")
        return 2
    if options.action == "show" and (options.setting or options.unset):
        sys.stderr.write("-c and --unset are for siltstone configs set alone\n")
        return 2
    action = {"show": _show, "set": _set}[options.action]
    return run_command(options, lambda broker: action(broker, options, *_resource(options)))


def _resource(options: argparse.Namespace) -> tuple[int, str]:
    if options.group is not None:
        return _GROUP, options.group
    if options.loggers is not None:
        return _LOGGERS, options.loggers
    return _BROKER, options.broker or ""


def _show(broker: Broker, options: argparse.Namespace, kind: int, name: str) -> int:
    (settings,) = describe(broker, kind, [name]).values()
    rows = [each for each in settings if options.all or each["source"] not in _AT_START]
    if options.json:
        write_json({"settings": rows})
    else:
        show_settings(rows)
    return 0


def _set(broker: Broker, options: argparse.Namespace, kind: int, name: str) -> int:
    done = alter(broker, kind, [name], options.setting, options.unset)
    named = [(each or "all brokers", code, message) for each, code, message in done]
    return report(options, "altered", "settings of", named)
