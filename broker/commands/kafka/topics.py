"""``siltstone topics``: lists, describes, creates, deletes and alters topics."""

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from siltstone.broker.commands.explain_text import counted, size
from siltstone.broker.commands.kafka.broker import (
    END,
    START,
    Broker,
    add_connection,
    report,
)
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.kafka.configs import TOPIC, alter, describe, show_settings
from siltstone.broker.commands.options import positive
from siltstone.broker.commands.terminal import write_json, write_lines, write_table
from siltstone.pipeline.client.wire import Exchange
from siltstone.protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_log_dirs,
)
from siltstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

_CREATE: Final = Exchange(create_topics.REQUEST, create_topics.RESPONSE, 7)
_DELETE: Final = Exchange(delete_topics.REQUEST, delete_topics.RESPONSE, 6)
_GROW: Final = Exchange(create_partitions.REQUEST, create_partitions.RESPONSE, 3)
_SIZES: Final = Exchange(describe_log_dirs.REQUEST, describe_log_dirs.RESPONSE, 2)
ACTIONS: Final = ("list", "describe", "create", "delete", "alter")
_MS: Final = 60_000


def add_topics(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to do, with which topics, and the broker."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list")
    parser.add_argument("names", nargs="*", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partitions", type=positive, metavar="COUNT", help="of a topic to create, or more"
    )
    parser.add_argument(
        "-c",
        "--topic-config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the topic; repeatable",
    )
    parser.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="take a topic's setting away"
    )
    parser.add_argument("--internal", action="store_true", help="list the internal ones, too")
    add_connection(parser)


def run_topics(options: argparse.Namespace) -> int:
    """List, describe, create, delete or alter topics; return the exit code."""
    actions: dict[str, Callable[[Broker, argparse.Namespace], int]] = {
        "list": _list,
        "describe": _describe,
        "create": _create,
        "delete": _delete,
        "alter": _alter,
    }
    fault = _find_fault(options)
    if fault is not None:
        sys.stderr.write(f"{fault}\n")
        return 2
    return run_command(options, lambda broker: actions[options.action](broker, options))


def _find_fault(options: argparse.Namespace) -> str | None:
    """Return what is wrong with the usage."""
    if options.action != "list" and not options.names:
        return f"siltstone topics {options.action} wants the name of a topic"
    bad = [each for each in options.topic_config if not each.partition("=")[1]]
    if bad:
        return f"-c {bad[0]}: write NAME=VALUE"
    changes = options.topic_config or options.unset or options.partitions
    if options.action == "alter" and not changes:
        return "siltstone topics alter wants -c NAME=VALUE, --unset NAME or -p COUNT"
    return None


def _list(broker: Broker, options: argparse.Namespace) -> int:
    found = broker.topics(options.names or None)
    topics = sorted(
        (each for each in found.values() if options.internal or not each.is_internal),
        key=lambda each: each.name,
    )
    sizes = _sizes(broker)
    rows = [
        {
            "name": each.name,
            "partitions": len(each.leaders),
            "bytes": sum(sizes.get((each.name, number), 0) for number in each.leaders),
        }
        for each in topics
    ]
    if options.json:
        write_json({"topics": rows})
        return 0
    write_table(
        ("TOPIC", "PARTITIONS", "SIZE"),
        [(each["name"], each["partitions"], size(int(str(each["bytes"])))) for each in rows],
    )
    return 0


def _describe(broker: Broker, options: argparse.Namespace) -> int:
    found = broker.topics(options.names)
    wanted = {name: list(each.leaders) for name, each in found.items()}
    starts, ends = broker.offsets(wanted, START), broker.offsets(wanted, END)
    sizes, configs = _sizes(broker), describe(broker, TOPIC, found)
    told = [
        {
            "name": name,
            "internal": each.is_internal,
            "partitions": [
                {
                    "partition": number,
                    "leader": leader,
                    "start": starts[name, number],
                    "end": ends[name, number],
                    "bytes": sizes.get((name, number)),
                }
                for number, leader in each.leaders.items()
            ],
            "settings": configs[name],
        }
        for name, each in found.items()
    ]
    if options.json:
        write_json({"topics": told})
        return 0
    for topic in told:
        _tell(topic)
    return 0


def _tell(topic: dict[str, Any]) -> None:
    parts = topic["partitions"]
    total = sum(each["bytes"] or 0 for each in parts)
    many = counted(len(parts), "partition")
    write_lines([f"{topic['name']}: {many}, {size(total)}", ""])
    write_table(
        ("PARTITION", "LEADER", "START", "END", "OFFSETS", "SIZE"),
        [
            (
                each["partition"],
                each["leader"],
                each["start"],
                each["end"],
                each["end"] - each["start"],
                "-" if each["bytes"] is None else size(each["bytes"]),
            )
            for each in parts
        ],
    )
    given = [each for each in topic["settings"] if each["source"] != "default"]
    if given:
        sys.stdout.write("\n")
        show_settings(given)
    sys.stdout.write("\n")


def _create(broker: Broker, options: argparse.Namespace) -> int:
    configs = [
        create_topics.CreatableTopicConfig(*each.split("=", 1)) for each in options.topic_config
    ]
    topics = [
        create_topics.CreatableTopic(name, options.partitions or -1, -1, (), configs)
        for name in options.names
    ]
    answer = broker.ask(_CREATE, create_topics.CreateTopicsRequest(topics, _MS))
    return report(options, "created", "topic", _outcomes(answer.topics))


def _delete(broker: Broker, options: argparse.Namespace) -> int:
    states = [DeleteTopicState(name=name) for name in options.names]
    answer = broker.ask(_DELETE, DeleteTopicsRequest(topics=states, timeout_ms=_MS))
    return report(options, "deleted", "topic", _outcomes(answer.responses))


def _outcomes(rows: Iterable[Any]) -> list[tuple[str, int, str | None]]:
    return [(each.name, each.error_code, each.error_message) for each in rows]


def _alter(broker: Broker, options: argparse.Namespace) -> int:
    done: list[tuple[str, int, str | None]] = []
    if options.topic_config or options.unset:
        done = alter(broker, TOPIC, options.names, options.topic_config, options.unset)
    if options.partitions and not any(code for _, code, _ in done):
        wanted = [
            create_partitions.CreatePartitionsTopic(name, options.partitions, None)
            for name in options.names
        ]
        answer = broker.ask(_GROW, create_partitions.CreatePartitionsRequest(wanted, _MS))
        done = _outcomes(answer.results)
    return report(options, "altered", "topic", done)


def _sizes(broker: Broker) -> dict[tuple[str, int], int]:
    """Return the size of each partition in bytes; nothing if the broker refuses to tell.

    All are asked for, as by Kafka's tool: a request that named many could be too large.
    """
    answer = broker.ask(_SIZES, describe_log_dirs.DescribeLogDirsRequest(None))
    return {
        (topic.name, each.partition_index): each.partition_size
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }
