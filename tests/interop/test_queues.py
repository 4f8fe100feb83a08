"""Queues beside Apache Kafka: drawn fetches and acknowledgements are answered field by field alike.

The state of a queue is initialized by the persister's own request, so no group is needed.
"""

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.support.batches import make_batch
from tests.support.clock import now
from tests.support.kafka import KafkaJars
from tests.support.rows import Asker
from tests.support.side_by_side import MASKED, Reading, both, compare
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.partition.max.record.locks": "100",
}
MEMBERS: Final = ("one", "two", "three")
TYPES: Final = (1, 1, 1, 2, 2, 2, 3, 0)
RELEASE: Final = 2
WAIT_MS: Final = 150
STEPS: Final = 120
CONFUSED: Final = -1
"""Of Kafka, where a range is acknowledged of which nothing is in flight any more."""


@pytest.mark.parametrize("seed", [0])
def test_drawn_requests_are_answered_as_kafka_does(
    kafka_jars: KafkaJars, tmp_path: Path, seed: int
) -> None:
    """Each history has queues of its own; it ends at the first difference."""
    with (
        both(kafka_jars, tmp_path, SETTINGS) as (ours, theirs),
        Asker(ours.bootstrap) as our_asker,
        Asker(theirs.bootstrap) as their_asker,
    ):
        mine, other = Side(our_asker), Side(their_asker)
        for history in range(4):
            random = Random(seed * 100 + history)
            group = f"g{history}"
            said: list[str] = []
            for side in (mine, other):
                side.begin(group)
            for step in steps(random, mine, group):
                told, also_told = mine.do(*step), other.do(*step)
                if also_told.get("error_code") == CONFUSED:
                    break  # our answer is INVALID_RECORD_STATE; from here on the two differ
                differences = list(compare(told, also_told))
                said.append(f"{step}\n   {told}")
                assert not differences, "\n".join([*said[-12:], *differences])


class Side:
    """One broker: its topic, the epochs of its sessions, and the records that members hold."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.reading = Reading(MASKED - {"error_message"})
        self.topic_id = b""
        self.name = ""
        self.end = 0
        self.bases: list[int] = []
        self.epochs: dict[str, int] = {}
        self.held: dict[str, list[tuple[int, int]]] = {}

    def begin(self, group: str) -> None:
        """Create a topic, and initialize its queues."""
        self.name = f"t-{group}"
        self.epochs, self.held, self.end, self.bases = {}, {}, 0, []
        topic = {"name": self.name, "num_partitions": 2, "replication_factor": 1}
        self.asker.ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 9_000})
        told = wait_until(
            lambda: self.asker.ask("Metadata", 12, {"topics": [{"name": self.name}]}),
            "the topic",
            lambda answer: (
                not answer["topics"][0]["error_code"]
                and len(answer["topics"][0]["partitions"]) == 2
            ),
        )
        self.topic_id = told["topics"][0]["topic_id"]
        self.reading.read(self.topic_id, "topic_id")
        keys = {"key_type": 2, "coordinator_keys": [f"{group}:AAAAAAAAAAAAAAAAAAAAAA:0"]}
        wait_until(
            lambda: self.asker.ask("FindCoordinator", 6, keys),
            "the coordinator",
            lambda answer: not answer["coordinators"][0]["error_code"],
        )
        partitions = [
            {"partition": index, "state_epoch": 1, "start_offset": 0} for index in range(2)
        ]
        values = {
            "group_id": group, "topics": [{"topic_id": self.topic_id, "partitions": partitions}]
        }  # fmt: skip
        wait_until(
            lambda: self.asker.ask("InitializeShareGroupState", 0, values),
            "the state",
            lambda answer: (
                not any(each["error_code"] for each in answer["results"][0]["partitions"])
            ),
        )

    def do(self, api: str, version: int, values: dict[str, Any]) -> Any:
        """Send a request, and return the answer in the words that both have in common."""
        values = self._fill(values)
        answer = self.asker.ask(api, version, values)
        if api.startswith("Share") and isinstance(answer, dict):
            self._note(api, values, answer)
            for topic in answer["responses"]:
                topic["partitions"] = [each for each in topic["partitions"] if _is_told(each)]
        return self.reading.read(answer)

    def _fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self.topic_id
                if each == "ID"
                else self.name
                if each == "NAME"
                else self._fill(each)
                for key, each in value.items()
            }
        return [self._fill(each) for each in value] if isinstance(value, list) else value

    def _note(self, api: str, values: dict[str, Any], answer: dict[str, Any]) -> None:
        member = values["member_id"]
        if not answer["error_code"] and member:
            epoch = values["share_session_epoch"]
            self.epochs[member] = 0 if epoch == -1 else epoch + 1
            if epoch == -1:
                self.held.pop(member, None)
        if api == "ShareFetch":
            for topic in answer["responses"]:
                for row in topic["partitions"]:
                    if row["partition_index"] == 0:
                        self.held.setdefault(member, []).extend(
                            (each["first_offset"], each["last_offset"])
                            for each in row["acquired_records"]
                        )


def _is_told(row: dict[str, Any]) -> bool:
    """Tell whether a row says something; Kafka leaves it out while it loads a new queue."""
    return row["partition_index"] == 0 or bool(row["error_code"])


def steps(random: Random, mine: Side, group: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Draw requests: mostly such as members send, some with wrong epochs, ranges and ids."""
    yield _produce(random, mine)
    for _ in range(STEPS):
        kind = random.random()
        if kind < 0.25:
            yield _produce(random, mine)
        elif kind < 0.65:
            yield _fetch(random, mine, group)
        else:
            yield _acknowledge(random, mine, group)
    # Later Kafka also gives records from before the new start, and keeps what was before it.
    where = {"partition_index": 0, "offset": random.choice(mine.bases)}
    topics = [{"name": "NAME", "partitions": [where]}]
    yield "DeleteRecords", 2, {"topics": topics, "timeout_ms": 9_000}
    for member in MEMBERS:
        yield _fetch(random, mine, group, member)
    for member in MEMBERS:  # Kafka releases the records a moment after it has answered
        api, version, values = _fetch(random, mine, group, member)
        yield api, version, values | {"share_session_epoch": -1, "topics": []}


def _produce(random: Random, mine: Side) -> tuple[str, int, dict[str, Any]]:
    count = random.randint(1, 12)
    mine.bases.append(mine.end)
    mine.end += count
    batch = bytes(make_batch(count, timestamp=now()))
    data = [{"index": 0, "records": batch}]
    topics = [{"name": "NAME", "partition_data": data}]
    return "Produce", 9, {"acks": -1, "timeout_ms": 9_000, "topic_data": topics}


def _fetch(
    random: Random, mine: Side, group: str, member: str = ""
) -> tuple[str, int, dict[str, Any]]:
    """Draw a fetch: nothing is released with it, for Kafka may give that in the same answer."""
    batches = []
    epoch = mine.epochs.get(member, 0)
    if not member:
        member, epoch = _member(random, mine)
        if random.random() < 0.4:
            batches = _ranges(random, mine, member)
    for each in batches:
        each["acknowledge_types"] = [
            1 if kind == RELEASE else kind for kind in each["acknowledge_types"]
        ]
    is_renewal = random.random() < 0.06
    partitions = [{"partition_index": 0, "acknowledgement_batches": batches}]
    if random.random() < 0.2:
        partitions.append({"partition_index": random.choice([1, 1, 7])})
    named = epoch == 0 or bool(batches) or random.random() < 0.2
    topic_id = "ID" if random.random() < 0.97 else b"\5" * 16
    values = {
        "group_id": group if random.random() < 0.99 else None,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait_ms": 0 if is_renewal else WAIT_MS,
        "min_bytes": 0 if is_renewal else 1,
        "max_bytes": 0 if is_renewal and random.random() < 0.8 else 1 << 20,
        "max_records": 0 if is_renewal else random.choice([1, 3, 10, 30, 500]),
        "batch_size": random.choice([1, 5, 20, 500]),
        "topics": [{"topic_id": topic_id, "partitions": partitions}] if named else [],
    }
    version = random.choice([1, 2, 2])
    if version == 2:
        values |= {"share_acquire_mode": random.choice([0, 0, 1]), "is_renew_ack": is_renewal}
    return "ShareFetch", version, values


def _acknowledge(random: Random, mine: Side, group: str) -> tuple[str, int, dict[str, Any]]:
    member, epoch = _member(random, mine)
    version = random.choice([1, 2, 2])
    where = {
        "partition_index": random.choice([0] * 12 + [1, 7]),
        "acknowledgement_batches": _ranges(random, mine, member),
    }
    topic_id = "ID" if random.random() < 0.97 else b"\5" * 16
    values: dict[str, Any] = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "topics": [{"topic_id": topic_id, "partitions": [where]}],
    }
    if version == 2:
        values["is_renew_ack"] = random.random() < 0.5
    return "ShareAcknowledge", version, values


def _member(random: Random, mine: Side) -> tuple[str, int]:
    member = random.choice(MEMBERS)
    epoch = mine.epochs.get(member, 0)
    chance = random.random()
    if chance < 0.03:
        epoch = random.choice([0, epoch + 1, 1000])
    if chance > 0.99:
        member = random.choice(["", "m" * 37, "stranger"])
    return member, epoch


def _ranges(random: Random, mine: Side, member: str) -> list[dict[str, Any]]:
    """Draw ranges of what a member holds, and some that it does not hold."""
    held = sorted(mine.held.get(member, []))
    ranges: list[dict[str, Any]] = []
    for _ in range(random.choice([1, 1, 1, 2, 0])):
        if held and random.random() < 0.9:
            first, last = held.pop(random.randrange(len(held)))
            if random.random() < 0.8:
                mine.held[member].remove((first, last))
            if random.random() < 0.3 and last > first:
                first = random.randint(first, last)
        else:
            first = random.randint(-1, mine.end + 2)
            last = first + random.randint(-1, 9)
        count = last - first + 1 if random.random() < 0.3 else 1
        types = [random.choice((*TYPES, 4) if random.random() < 0.2 else TYPES)] * max(0, count)
        if random.random() < 0.5:
            types = [random.choice(TYPES) for _ in types]
        if random.random() < 0.02:
            types = random.choice([[], [1, 1], [9], [-1]])
        ranges.append({"first_offset": first, "last_offset": last, "acknowledge_types": types})
    if random.random() < 0.9:
        ranges.sort(key=itemgetter("first_offset"))
    return ranges
