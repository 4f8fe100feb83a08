"""Writes ``protocol/messages/`` from the definitions of messages inside Apache Kafka's client jar.

    python -m tools.messages .cache/kafka-jars/kafka-clients-4.3.1.jar

Only what a message is made of is taken: names, types, versions, tags and defaults. `docs/messages.md`
says how to add an API, a version or a field.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

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
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
]
"""The APIs that the broker serves, or that the pipeline asks of others."""

_LINE: Final = 100
_PYTHON: Final = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "uuid": "bytes",
    "float64": "float",
}
_ZEROS: Final = {
    "bool": "False",
    "string": '""',
    "bytes": 'b""',
    "records": 'b""',
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


def read_message(jar: ZipFile, name: str) -> dict[str, Any]:
    """Return a definition; its comments are what JSON does not have."""
    text = jar.read(f"common/message/{name}.json").decode()
    definition: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return definition


def make_message(definition: dict[str, Any], taken: set[str]) -> Message:
    """Return a message whose structures have names that are not ``taken`` in their module."""
    versions = Versions.parse(definition["validVersions"], 1 << 15)
    last = versions.last
    flexible = Versions.parse(definition["flexibleVersions"], last)
    common = {each["name"]: each for each in definition.get("commonStructs", ())}
    message = Message(
        definition["name"], versions, flexible.first if flexible.last >= 0 else -1, []
    )
    direction = "Response" if message.name.endswith("Response") else "Request"
    made: dict[str, str] = {}

    def add(name: str, fields: list[dict[str, Any]]) -> str:
        if name in made:
            return made[name]
        own = f"{direction}{name}" if name in taken else name
        made[name] = own
        struct = Struct(own)
        for each in fields:
            present = Versions.parse(each["versions"], last).within(versions)
            if present.first <= present.last:
                struct.lines.append(add_field(each, present))
        message.structs.append(struct)
        return own

    def add_field(each: dict[str, Any], present: Versions) -> str:
        kind = each["type"]
        is_array = kind.startswith("[]")
        element = kind.removeprefix("[]")
        if element[0].isupper():
            fields = each.get("fields") or common[element]["fields"]
            python, element = add(element, fields), "struct"
        else:
            python = _PYTHON.get(element, "int")
        null = Versions.parse(each.get("nullableVersions", "none"), last).within(present)
        is_nullable = null.first <= null.last
        spec = ("[]" if is_array else "") + element + present.say(versions)
        if is_nullable:
            spec += f" null{null.say(present)}"
        if "tag" in each:
            spec += f" tag {each['tag']}"
        default = _default(each, element, python, is_array=is_array)
        if is_array:
            python = f"Sequence[{python}]"
        if is_nullable or default == "None":
            python += " | None"
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", each["name"]).lower()
        line = f'    {name}: Annotated[{python}, "{spec}"] = {default}'
        return f"{line}  # type: ignore[assignment]" if name in {"index", "count"} else line

    add(message.name, definition["fields"])
    taken.update(made.values())
    return message


def _default(each: dict[str, Any], element: str, python: str, *, is_array: bool) -> str:
    """Return the default of a field, as Kafka's generator of classes chooses it."""
    given = each.get("default")
    if given in {"null", None} and given is not None:
        return "None"
    if is_array:
        return "()"
    if element == "struct":
        return f"{python}()"
    if given is None or given == "":
        return _ZEROS.get(element, "0")
    if element == "bool":
        return str(given).capitalize()
    if element == "string":
        return json.dumps(given)
    return str(float(given)) if element == "float64" else str(int(str(given), 0))


def print_module(api: str, key: int, messages: list[Message]) -> str:
    """Return the source of one API's module."""
    body = []
    for message in messages:
        for struct in message.structs:
            body += ["", "", f"class {struct.name}(NamedTuple):"]
            body += struct.lines or ["    pass"]
            if struct.name == message.name:
                first, last = message.versions
                body += ["", ""]
                body.append(
                    f"{message.name.removeprefix(api).upper()} = "
                    f"Message({key}, {first}, {last}, {message.flexible}, {message.name})"
                )
    text = "\n".join(body)
    names = [name for name in ("NO_ID", "Message", "Records") if re.search(rf"\b{name}\b", text)]
    imports = ["from typing import Annotated, NamedTuple", ""]
    if "Annotated" not in text:
        imports[0] = "from typing import NamedTuple"
    if "Sequence[" in text:
        imports.insert(0, "from collections.abc import Sequence")
    imports.append(f"from protocol.messages import {', '.join(names)}")
    text = text.replace("\n\n\nREQUEST", "\n\n\nREQUEST")
    return (
        f'"""{api} ({key}). Written by ``tools/messages.py``."""\n\n'
        + "\n".join(imports)
        + text
        + "\n"
    )


def module_of(api: str) -> str:
    """Return the name of an API's module."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", api).lower()


def write_all(jar_path: Path, folder: Path) -> None:
    """Write a module for each of `APIS`."""
    with ZipFile(jar_path) as jar:
        for api in APIS:
            taken: set[str] = set()
            definitions = [read_message(jar, f"{api}{kind}") for kind in ("Request", "Response")]
            messages = [make_message(definition, taken) for definition in definitions]
            source = print_module(api, definitions[0]["apiKey"], messages)
            folder.joinpath(f"{module_of(api)}.py").write_text(source)


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("jar", type=Path, help="kafka-clients-VERSION.jar")
    parser.add_argument(
        "--into", type=Path, default=Path(__file__).parents[1] / "protocol" / "messages"
    )
    arguments = parser.parse_args()
    write_all(arguments.jar, arguments.into)
    sys.stdout.write(f"{len(APIS)} modules in {arguments.into}\n")


if __name__ == "__main__":
    main()
