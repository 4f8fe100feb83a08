"""Runs Kafka's console tools with one broker; values that change from run to run are masked."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka

from tests.support.clients.transactional import Confluent
from tests.support.kafka import KafkaJars, KafkaTools, full_name
from tests.support.oracle import Broker
from tests.support.waiting import PATIENCE, wait_until
from tools.console_tools import Step

MAINS = {
    "kafka-acls": "AclCommand",
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-client-metrics": "ClientMetricsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "consumer.ConsoleConsumer",
    "kafka-console-producer": "ConsoleProducer",
    "kafka-consumer-groups": "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "ConsumerPerformance",
    "kafka-delegation-tokens": "DelegationTokenCommand",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-dump-log": "DumpLogSegments",
    "kafka-features": "FeatureCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-groups": "GroupsCommand",
    "kafka-leader-election": "LeaderElectionCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-metadata-quorum": "MetadataQuorumCommand",
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-reassign-partitions": "reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "streams.StreamsGroupCommand",
    "kafka-topics": "TopicCommand",
    "kafka-transactions": "TransactionsCommand",
}
"""The class that each script of Kafka's bin folder starts."""

_OFFLINE = {"kafka-dump-log"}
_LATER = {"kafka-cluster"}
_MASKS = (
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
    (r"\b[\w-]{8}-[\w-]{4}-[\w-]{4}-[\w-]{4}-[\w-]{12}\b", "UUID"),
    (r"(?<=TopicId: )[\w-]{22}|(?<=ClusterId: )[\w-]{22}|(?<=Cluster ID: )[\w-]{22}", "ID"),
    (r"(?<=^1 )[\w-]{22}(?= )", "ID"),
    (r"\b1[789]\d{11}\b", "TIME"),
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([,.:]\d+)?(Z|[+-]\d\d:?\d\d)?", "TIME"),
    (r"\bcrc: \d+", "crc: N"),
    (r"\b(Epoch|HighWatermark): \d+", r"\1: N"),
    (r"(?<=^1 ID )\d+", "N"),
    (r"(?<= TIME )\d+(?= orders-0$)", "N"),
    (r"[\w/+-]{22}(?= /127)", "ID"),
    (r"(?<= 127\.0\.0\.1 )\d+", "PORT"),
    (r"[\d.]+(?= MB/sec)", "N"),
    (r"^java\.util\.concurrent\.ExecutionException: ", ""),
    (r"\b\d+(\.\d+)? (?=records/sec|ms\b)|\b\d+\.\d{4}\b", "N "),
    (r"(?<=N , )\d+, \d+(?=, N)", "N, N"),
)
"""Words that are others at each run, in lines whose blanks are single."""
_LOGGED = re.compile(
    r"^(Caused by|WARN|ERROR|INFO|\[?\d{4}-\d\d-\d\d).*|^\tat .*|^\s+\.\.\. \d+ more"
)


class Answer(NamedTuple):
    """The output of a tool, masked, and how it ended."""

    code: int
    lines: tuple[str, ...]


def write_scripts(folder: Path, jars: KafkaJars, archive: str = "tool") -> Path:
    """Write Kafka's shell scripts, as its download has them; return their folder."""
    folder.mkdir(exist_ok=True)
    for name, main in MAINS.items():
        script = folder / f"{name}.sh"
        command = shlex.join(jars.command(archive, full_name(main)))
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
    return folder


class Console:
    """Runs Kafka's commands with one broker."""

    def __init__(self, broker: Broker, tools: KafkaTools, folder: Path) -> None:
        self._broker = broker
        self._tools = tools
        self._confluent = Confluent(broker.bootstrap)
        self._open: list[Any] = []
        self._files = {"log": "", "index": ""}
        for name, content in _FILES.items():
            (folder / name).write_text(json.dumps(content) if content else "")
            self._files[name] = str(folder / name)

    def type(self, step: Step) -> Answer:
        """Run the command of a step."""
        log = self._broker.folder / "customers-0" / f"{0:020}"
        self._files |= {"log": f"{log}.log", "index": f"{log}.index"}
        words = shlex.split(step.words.format(**self._files) if "{" in step.words else step.words)
        at = [] if step.tool in _OFFLINE else ["--bootstrap-server", self._broker.bootstrap]
        typed = [*words, *at] if step.tool in _LATER else [*at, *words]
        done = self._tools.try_run(
            MAINS[step.tool], *typed, stdin="".join(f"{line}\n" for line in step.given)
        )
        return Answer(done.returncode, self._mask(f"{done.stdout}\n{done.stderr}"))

    def act(self, scene: str) -> None:
        """Do the work of a scene."""
        _SCENES[scene](self)

    def close(self) -> None:
        """Close the clients that are left."""
        while self._open:
            self._open.pop().close()

    def _members_come(self) -> None:
        for group, protocol in (("classic", "classic"), ("modern", "consumer")):
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": self._broker.bootstrap,
                    "client.id": f"client-{group}",
                    "group.id": group,
                    "group.protocol": protocol,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            consumer.subscribe(["customers"])
            self._open.append(consumer)
            consumer.commit(message=_first_message(consumer, group), asynchronous=False)

    def _members_leave(self) -> None:
        self.close()

    def _transaction_begins(self) -> None:
        self._producer = self._confluent.producer("payments")
        self._producer.begin_transaction()
        self._producer.produce("orders", b"open", partition=0)
        self._producer.flush(PATIENCE)

    def _transaction_ends(self) -> None:
        del self._producer

    def _mask(self, printed: str) -> tuple[str, ...]:
        """Return the lines; those of the tools' own log and of stack traces do not count."""
        masked = printed.replace(str(self._broker.folder), "DATA")
        masked = masked.replace(self._broker.bootstrap, "BROKER")
        lines = [" ".join(line.split()) for line in masked.splitlines() if not _LOGGED.match(line)]
        for pattern, word in _MASKS:
            lines = [re.sub(pattern, word, line) for line in lines]
        return tuple(_once(line for line in lines if line))


def differences(
    step: Step, theirs: Answer, ours: Answer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines that only one of two answers has; exit codes count as lines."""
    left, right = ([line for line in each.lines if _counts(step, line)] for each in (theirs, ours))
    if step.common:
        both = {_name(line) for line in left} & {_name(line) for line in right}
        left, right = ([line for line in each if _name(line) in both] for each in (left, right))
    if theirs.code != ours.code:
        left.append(f"exit code {theirs.code}")
        right.append(f"exit code {ours.code}")
    only = Counter(left) - Counter(right), Counter(right) - Counter(left)
    return tuple(sorted(only[0].elements())), tuple(sorted(only[1].elements()))


def _first_message(consumer: confluent_kafka.Consumer, group: str) -> confluent_kafka.Message:
    """Return the first message that comes to a member of a group."""
    seen = wait_until(
        lambda: [each for each in consumer.consume(1, 0.2) if each.error() is None],
        f"a record for {group}",
    )
    return seen[0]


def _once(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, an exception's message once: some tools print and throw it."""
    told: set[str] = set()
    for line in lines:
        if line not in told:
            yield line
        if line.startswith("org.apache.kafka.common.errors."):
            told.add(line)


def _counts(step: Step, line: str) -> bool:
    return not (step.apart and re.search(step.apart, line))


def _name(line: str) -> str:
    return line.partition("=")[0]


_FILES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "delete": {"version": 1, "partitions": [{"topic": "customers", "partition": 0, "offset": 1}]},
    "move": {"version": 1, "topics": [{"topic": "orders"}]},
    "plan": {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": ["any"]}],
    },
    "absent": {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [2], "log_dirs": ["any"]}],
    },
}


_SCENES: dict[str, Callable[[Console], None]] = {
    "members come": Console._members_come,
    "members leave": Console._members_leave,
    "transaction begins": Console._transaction_begins,
    "transaction ends": Console._transaction_ends,
}
