"""A connection of a command to a broker, and the questions that several commands ask."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.broker.commands.asking import (
    TIMEOUT_SECONDS,
    Channel,
    NobodyAnswers,
    Refusal,
    StartsOrStops,
)
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import complain, write_json, write_lines
from siltstone.config.listeners import AUTO, Listener, parse_host_port, reachable
from siltstone.config.properties import properties_entries
from siltstone.pipeline.client.wire import Exchange, Wire
from siltstone.pipeline.errors import PipelineError
from siltstone.protocol.errors import ErrorCode, error_name
from siltstone.protocol.messages import api_versions, find_coordinator, list_offsets, metadata
from siltstone.protocol.messages.api_versions import ApiVersionsRequest
from siltstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from siltstone.config.layers import Layers

START: Final = -2
END: Final = -1
CLIENT_ID: Final = "siltstone"
_HIGHEST_PORT: Final = 65_535

_WORK_SECONDS: Final = 60.0  # of a broker that is known to answer

_VERSIONS: Final = Exchange(api_versions.REQUEST, api_versions.RESPONSE, 2)
_METADATA: Final = Exchange(metadata.REQUEST, metadata.RESPONSE, 12)
_LIST_OFFSETS: Final = Exchange(list_offsets.REQUEST, list_offsets.RESPONSE, 6)
_FIND_COORDINATOR: Final = Exchange(find_coordinator.REQUEST, find_coordinator.RESPONSE, 4)


class Refused(Exception):  # noqa: N818  # an answer of the broker, not a fault
    """The broker refuses the request; the text says why."""


class TopicFacts(NamedTuple):
    """A topic and the leader of each partition by its number; -1 if a partition has no leader."""

    name: str
    is_internal: bool
    leaders: dict[int, int]


class Broker:
    """One broker, which gets one request after the other."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def ask(self, exchange: Exchange, request: Any) -> Any:
        """Return the answer to a request. Blocks.

        Raises:
            PipelineError: No answer comes.
        """
        return self.wire.ask(exchange, request)

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicFacts]:
        """Return the named topics, or all topics if no name is given.

        Raises:
            Refused: A topic does not exist, or the client may not describe it.
        """
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self.ask(
            _METADATA,
            MetadataRequest(
                topics=asked,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
        )
        found = {}
        for topic in answer.topics:
            if topic.error_code and asked is not None:
                raise Refused(why(topic.error_code, None, f"topic {topic.name}"))
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            name = topic.name or ""
            found[name] = TopicFacts(name, topic.is_internal, dict(sorted(leaders.items())))
        return found

    def offsets(
        self, wanted: Mapping[str, Iterable[int]], timestamp: int, *, is_committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Return the offsets for a time in ms, `START` or `END`; -1 if all records are older.

        With ``is_committed`` the end is the last stable offset.

        Raises:
            Refused: The broker has no offset for a partition.
        """
        topics = [
            list_offsets.ListOffsetsTopic(
                name,
                [
                    list_offsets.ListOffsetsPartition(partition_index=each, timestamp=timestamp)
                    for each in partitions
                ],
            )
            for name, partitions in wanted.items()
        ]
        answer = self.ask(
            _LIST_OFFSETS, list_offsets.ListOffsetsRequest(-1, int(is_committed), topics)
        )
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    what = f"offsets of {topic.name}-{each.partition_index}"
                    raise Refused(why(each.error_code, None, what))
                found[topic.name, each.partition_index] = each.offset
        return found

    def find_coordinator(self, group_id: str) -> None:
        """Ask for the coordinator, which makes the broker load the group, as clients do.

        Raises:
            Refused: The broker does not coordinate the group.
        """
        answer = self.ask(
            _FIND_COORDINATOR, FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
        )
        for each in answer.coordinators:
            if each.error_code:
                raise Refused(why(each.error_code, each.error_message, f"group {group_id}"))


def why(code: int, message: str | None, what: str) -> str:
    """Return an error of the broker as a sentence."""
    name = error_name(code)
    if message:
        return f"{message} ({name})"
    known = _KNOWN.get(code)
    return f"{what}: {name}" if known is None else f"{what}: {known} ({name})"


_KNOWN: Final = {
    int(ErrorCode.unknown_topic_or_partition): "there is no such topic or partition",
    int(ErrorCode.invalid_topic_exception): "this cannot be a topic's name; use up to 249 letters, "
    "digits, '.', '_' and '-' of ASCII",
    int(ErrorCode.topic_authorization_failed): "this user may not do that with it",
    int(ErrorCode.group_authorization_failed): "this user may not do that with it",
    int(ErrorCode.topic_already_exists): "it exists already",
    int(ErrorCode.group_id_not_found): "there is no such group",
    int(ErrorCode.non_empty_group): "it has members; stop them first",
    int(ErrorCode.not_leader_or_follower): "another broker has it; ask that one",
    int(ErrorCode.coordinator_load_in_progress): "the broker reads its groups; ask again",
    int(ErrorCode.offset_out_of_range): "no record has that offset",
}


def report(
    options: argparse.Namespace,
    verb: str,
    noun: str,
    done: Iterable[tuple[str, int, str | None]],
    key: str = "name",
) -> int:
    """Print what was done to each named thing, or why not; return 1 if one was refused.

    ``done`` has the names with the broker's codes and messages; in JSON a name stands under
    ``key``.
    """
    rows = [
        {key: name, "error": why(code, message, f"{noun} {name}") if code else None}
        for name, code, message in done
    ]
    if options.json:
        write_json({verb: rows})
    for row in () if options.json else rows:
        if row["error"] is None:
            write_lines([f"{verb} {row[key]}"])
        else:
            complain(row["error"])
    return 1 if any(row["error"] for row in rows) else 0


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the options: which broker, and how to connect to it."""
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        type=_bootstrap_server,
        metavar="HOST:PORT",
        help="the broker (default: the first of the settings' listeners)",
    )
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="security.protocol and its like in a file, as for Kafka's tools",
    )


def _bootstrap_server(text: str) -> tuple[str, int]:
    """Return the host and the port of the first address in a list that commas separate."""
    host, colon, port = text.split(",", maxsplit=1)[0].strip().rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or "localhost", int(port)


def run(options: argparse.Namespace, command: Callable[[Broker], int]) -> int:
    """Connect and run a command; return its exit code, 1 with a sentence if it is refused."""
    layers = read_settings(options)
    try:
        settings = _read_settings(options)
        if options.bootstrap_server is None and layers.value("listeners") is not None:
            _check_protocol(layers.server().bound_listeners[0], settings)
        address = _find_address(layers, options.bootstrap_server)
        client_id = settings.get("client.id", CLIENT_ID)
        remedy = "check --bootstrap-server and --command-config"
        with Wire(address, settings, client_id, remedy=remedy, seconds=TIMEOUT_SECONDS) as wire:
            wire.ask(_VERSIONS, ApiVersionsRequest())  # a broker that hangs is noticed in time
            wire.wait(_WORK_SECONDS)
            return command(Broker(wire))
    except PipelineError as error:
        is_ours = isinstance(error.__cause__, ConnectionRefusedError) and (
            options.bootstrap_server is None
        )
        complain((_find_change(layers) if is_ours else None) or str(error))
    except (Refused, Refusal) as error:
        complain(str(error))
    except NobodyAnswers as error:
        complain(error.advice)
    return 1


def _find_change(layers: Layers) -> str | None:
    """Return a sentence if the broker of these settings starts or stops; None if it does not."""
    try:
        Channel(layers).get("/readyz")
    except StartsOrStops as error:
        return error.advice
    except NobodyAnswers:
        return None
    except Refusal as error:
        return f"the broker of these settings is {error}"
    return None


def _check_protocol(listener: Listener, settings: Mapping[str, str]) -> None:
    """Refuse to use a listener with another protocol than its settings name."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol == listener.protocol:
        return
    wanted = [f"security.protocol={listener.protocol}"]
    if listener.protocol.startswith("SASL"):
        wanted.append("sasl.mechanism and sasl.jaas.config")
    if listener.protocol.endswith("SSL"):
        wanted.append("ssl.truststore.location, a PEM file of its authority")
    raise Refused(
        f"listener {listener} {_MANNERS[listener.protocol]}, and the command comes with "
        f"{protocol}: name a file with {', '.join(wanted)} by --command-config, or another "
        "listener by --bootstrap-server"
    )


_MANNERS: Final = {
    "PLAINTEXT": "neither encrypts nor asks for a login",
    "SSL": "encrypts",
    "SASL_PLAINTEXT": "asks for a login",
    "SASL_SSL": "encrypts and asks for a login",
}


def _find_address(layers: Layers, given: tuple[str, int] | None) -> tuple[str, int]:
    if given is not None:
        return given
    listener = layers.server().bound_listeners[0]
    if listener.port:
        return reachable(listener.host), listener.port
    status = json.loads(Channel(layers).get("/v1/status").body)
    host, port = parse_host_port(next(iter(status["advertised"].values())))
    return "127.0.0.1" if host == AUTO else host, port


def _read_settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings from the file that the options name."""
    if options.command_config is None:
        return {}
    faults: list[str] = []
    warnings: list[str] = []
    entries = properties_entries(options.command_config, faults, warnings, "--command-config")
    for each in warnings:
        complain(each)
    if faults:
        raise Refused("; ".join(faults))
    return {each.name: each.text for each in entries}
