"""Writes ``protocol/messages/`` from the definitions of messages inside Apache Kafka's jars.

    make messages

Only names, types, versions, tags and defaults are read from them. `docs/messages.md` says how to
add an API, a version or a field.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zipfile import ZipFile

if TYPE_CHECKING:
    from collections.abc import Sequence

APIS: Final = [
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "DescribeCluster",
    "DescribeProducers",
    "UnregisterBroker",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "ListConfigResources",
    "DescribeTopicPartitions",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "StreamsGroupTopologyDescriptionUpdate",
    "UnregisterController",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
]
"""The APIs that the broker serves, or that the pipeline asks of others."""

RECORDS: Final = {
    "consumer_offsets": (
        "Records of ``__consumer_offsets``",
        [
            "OffsetCommit",
            "GroupMetadata",
            "ConsumerGroupMetadata",
            "ConsumerGroupPartitionMetadata",
            "ConsumerGroupMemberMetadata",
            "ConsumerGroupTargetAssignmentMetadata",
            "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupCurrentMemberAssignment",
            "ConsumerGroupRegularExpression",
        ],
        ("Key", "Value"),
    ),
    "share_group_offsets": (
        "Records of share groups in ``__consumer_offsets``",
        [
            "ShareGroupMetadata",
            "ShareGroupMemberMetadata",
            "ShareGroupTargetAssignmentMetadata",
            "ShareGroupTargetAssignmentMember",
            "ShareGroupCurrentMemberAssignment",
            "ShareGroupStatePartitionMetadata",
        ],
        ("Key", "Value"),
    ),
    "share_group_state": (
        "Records of ``__share_group_state``",
        ["ShareSnapshot", "ShareUpdate"],
        ("Key", "Value"),
    ),
    "streams_group_offsets": (
        "Records of streams groups in ``__consumer_offsets``",
        [
            "StreamsGroupMetadata",
            "StreamsGroupMemberMetadata",
            "StreamsGroupTargetAssignmentMetadata",
            "StreamsGroupTargetAssignmentMember",
            "StreamsGroupCurrentMemberAssignment",
            "StreamsGroupTopology",
        ],
        ("Key", "Value"),
    ),
    "transaction_state": (
        "Records of ``__transaction_state``",
        ["TransactionLog"],
        ("Key", "Value"),
    ),
    "consumer_protocol": (
        "The bytes of consumers in JoinGroup and SyncGroup",
        ["ConsumerProtocol"],
        ("Subscription", "Assignment"),
    ),
}
"""Other modules: what each is, and its messages, each of two kinds."""

_NO_KEY: Final = -1
_LINE: Final = 100
_PYTHON: Final = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "octets": "Octets",
    "uuid": "bytes",
    "float64": "float",
}
_ZEROS: Final = {
    "bool": "False",
    "string": '""',
    "bytes": 'b""',
    "records": 'b""',
    "octets": 'b""',
    "uuid": "NO_ID",
    "float64": "0.0",
}


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str, last: int) -> Versions:
        """Read "3", "0-4", "2+" or "none"; ``last`` is the newest version of the message."""
        if text == "none":
            return cls(0, -1)
        first, dash, end = text.partition("-")
        if first.endswith("+"):
            return cls(int(first[:-1]), last)
        return cls(int(first), int(end) if dash else int(first))

    def within(self, other: Versions) -> Versions:
        """Return the versions that are in both."""
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def say(self, whole: Versions) -> str:
        """Return the range as the tables have it: nothing if it is the ``whole``."""
        if self.within(whole) == whole:
            return ""
        return f" {self.first}+" if self.last >= whole.last else f" {self.first}-{self.last}"


@dataclass
class Struct:
    """One structure of a message: its class name and its lines."""

    name: str
    lines: list[str] = field(default_factory=list)


@dataclass
class Message:
    """A request or a response: its versions and its structures, inner ones first."""

    name: str
    versions: Versions
    flexible: int
    structs: list[Struct]


def read_message(jars: Sequence[ZipFile], name: str) -> dict[str, Any]:
    """Return a definition from the jar that has it, without comments, which JSON does not allow."""
    path = f"common/message/{name}.json"
    text = next(jar for jar in jars if path in jar.namelist()).read(path).decode()
    definition: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return definition


class Maker:
    """Builds a message whose structures have unique names in their module."""

    def __init__(self, definition: dict[str, Any], taken: set[str], prefix: str) -> None:
        """``taken`` are the names of the module so far; those of this message are added.

        A structure whose name is taken has a ``prefix``.
        """
        self._prefix = prefix
        versions = Versions.parse(definition["validVersions"], 1 << 15)
        flexible = Versions.parse(definition["flexibleVersions"], versions.last)
        first_flexible = flexible.first if flexible.last >= 0 else -1
        self.message = Message(definition["name"], versions, first_flexible, [])
        self._common = {each["name"]: each for each in definition.get("commonStructs", ())}
        self._taken = taken
        self._made: dict[str, str] = {}
        self._add(definition["name"], definition["fields"])
        taken.update(self._made.values())

    def _add(self, name: str, fields: list[dict[str, Any]]) -> str:
        """Add a structure, once; return the name of its class."""
        if name not in self._made:
            self._made[name] = f"{self._prefix}{name}" if name in self._taken else name
            struct = Struct(self._made[name])
            for each in fields:
                has_it = each.get("versions") or each["taggedVersions"]
                present = Versions.parse(has_it, self.message.versions.last)
                present = present.within(self.message.versions)
                if present.first <= present.last:
                    struct.lines.append(self._print_field(each, present))
            self.message.structs.append(struct)
        return self._made[name]

    def _print_field(self, each: dict[str, Any], present: Versions) -> str:
        versions = self.message.versions
        is_array = each["type"].startswith("[]")
        element = each["type"].removeprefix("[]")
        if element == "bytes" and self.message.name.endswith("Request"):
            element = "octets"
        if element[0].isupper():
            fields = each.get("fields") or self._common[element]["fields"]
            python, element = self._add(element, fields), "struct"
        else:
            python = _PYTHON.get(element, "int")
        null = Versions.parse(each.get("nullableVersions", "none"), versions.last).within(present)
        spec = ("[]" if is_array else "") + element + present.say(versions)
        if null.first <= null.last:
            spec += f" null{null.say(present)}"
        if "tag" in each:
            spec += f" tag {each['tag']}"
        default = _find_default(each, element, python, is_array=is_array)
        if is_array:
            python = f"Sequence[{python}]"
        if null.first <= null.last or default == "None":
            python += " | None"
        name = to_snake(each["name"])
        line = f'    {name}: Annotated[{python}, "{spec}"] = {default}'
        if name in {"index", "count"}:  # every tuple has these
            line += "  # type: ignore[assignment]"
        if len(line) <= _LINE:
            return line
        if default.endswith("()") and default != "()":
            return f"{line.removesuffix(default)}(\n        {default}\n    )"
        return f'    {name}: Annotated[\n        {python}, "{spec}"\n    ] = {default}'


def _find_default(each: dict[str, Any], element: str, python: str, *, is_array: bool) -> str:
    """Return the default of a field, as Kafka's generator of classes chooses it."""
    given = each.get("default")
    if given == "null":
        return "None"
    if is_array:
        return "()"
    if element == "struct":
        return f"{python}()"
    if given in {None, ""}:
        return _ZEROS.get(element, "0")
    if element == "string":
        return json.dumps(given)
    return str(given).capitalize() if element == "bool" else str(int(str(given), 0))


def print_message(message: Message, constant: str, key: int) -> str:
    """Return the source of a message: its structures, and its constant."""
    pieces = [
        "\n".join([f"class {struct.name}(NamedTuple):", *(struct.lines or ["    pass"])])
        for struct in message.structs
    ]
    first, last = message.versions
    made = f"{constant} = Message({key}, {first}, {last}, {message.flexible}, {message.name})"
    if len(made) > _LINE:
        made = made.replace("Message(", "Message(\n    ")[:-1] + "\n)"
    return "\n".join(["\n\n".join(pieces), made])


def print_module(title: str, pieces: list[str]) -> str:
    """Return the source of a module."""
    text = "\n\n".join(pieces)
    typing = "Annotated, NamedTuple" if "Annotated" in text else "NamedTuple"
    ours = [
        name
        for name in ("NO_ID", "Message", "Octets", "Records")
        if re.search(rf"\b{name}\b", text)
    ]
    head = [f'"""{title}. Written by ``tools/messages.py``."""', ""]
    if "Sequence[" in text:
        head.append("from collections.abc import Sequence")
    head += [
        f"from typing import {typing}",
        f"from siltstone.protocol.messages import {', '.join(ours)}",
    ]
    return "\n".join([*head, "", text, ""])


def to_snake(name: str) -> str:
    """Return a name of Kafka's in Python's style."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def make_api(jars: Sequence[ZipFile], api: str) -> str:
    """Return the module of an API: its request and its response."""
    taken: set[str] = set()
    pieces = []
    key = _NO_KEY
    for kind in ("Request", "Response"):
        definition = read_message(jars, f"{api}{kind}")
        key = definition["apiKey"]
        pieces.append(print_message(Maker(definition, taken, kind).message, kind.upper(), key))
    return print_module(f"{api} ({key})", pieces)


def make_records(
    jars: Sequence[ZipFile], title: str, names: list[str], kinds: Sequence[str]
) -> str:
    """Return a module of records, or of other messages that begin with their version."""
    taken: set[str] = set()
    pieces = []
    for name in (f"{name}{kind}" for name in names for kind in kinds):
        definition = read_message(jars, name)
        message = Maker(definition, taken, name.removesuffix("Value")).message
        constant = to_snake(name).upper()
        pieces.append(print_message(message, constant, definition.get("apiKey", _NO_KEY)))
    return print_module(title, pieces)


def write_all(jar_paths: Sequence[Path], folder: Path) -> int:
    """Write a module for each of `APIS` and `RECORDS`; return how many these are."""
    with ExitStack() as stack:
        jars = [stack.enter_context(ZipFile(path)) for path in jar_paths]
        modules = {to_snake(api): make_api(jars, api) for api in APIS}
        modules |= {name: make_records(jars, *each) for name, each in RECORDS.items()}
    for name, source in modules.items():
        folder.joinpath(f"{name}.py").write_text(source)
    return len(modules)


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument(
        "jars", type=Path, nargs="+", help="kafka-clients and the coordinators' jars"
    )
    parser.add_argument(
        "--into", type=Path, default=Path(__file__).parents[1] / "protocol" / "messages"
    )
    arguments = parser.parse_args()
    count = write_all(arguments.jars, arguments.into)
    sys.stdout.write(f"{count} modules in {arguments.into}\n")


if __name__ == "__main__":
    main()
