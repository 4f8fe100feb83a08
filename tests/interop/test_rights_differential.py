"""Requests of somebody with some rights, to Apache Kafka and to ours: they answer the same.

`RIGHTS_WORLDS` says how many sets of rules, `RIGHTS_SEED` with which they begin. Each world has
some rules for bob and 70 requests of his, of every API and version, mostly of several elements:
which of them are refused, with which code, and which are not told at all.
"""

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.api import BY_KEY
from tests.support.kafka import KafkaJars
from tests.support.rights_beside import SETTINGS, Side, make_rules
from tests.support.rights_requests import KEYS, RightsRequests
from tests.support.side_by_side import both
from tests.support.waiting import wait_until

WORLDS = int(os.environ.get("RIGHTS_WORLDS") or 12)
FIRST_SEED = int(os.environ.get("RIGHTS_SEED") or 0)
QUESTIONS = 70
SETTLES = 2.0
"""Seconds: what Apache Kafka's controller has changed, its broker learns a moment later."""
CHANGES_TOPICS = {3, 19, 20, 37, 45}
CHANGES_RULES = {30, 31}
ONCE = {0, 8, 20, 21, 22, 28, 42, 47}
"""Requests that change when they are sent again: records exist, groups are gone."""

pytestmark = [
    *(pytest.mark.client, pytest.mark.java, pytest.mark.slow),
    pytest.mark.timeout(max(900, 15 * WORLDS)),
]


@pytest.fixture
def sides(kafka_jars: KafkaJars, tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Apache Kafka and ours, with the same topics, groups and transactional ids."""
    with (
        both(kafka_jars, tmp_path, SETTINGS) as (ours, kafka),
        closing(Side(kafka.bootstrap)) as their_side,
        closing(Side(ours.bootstrap)) as our_side,
    ):
        for side in (their_side, our_side):
            side.prepare()
        yield their_side, our_side


def test_apache_kafka_and_ours_refuse_the_same(sides: tuple[Side, Side]) -> None:
    """Element by element, in each version of each request."""
    other: list[tuple[Any, ...]] = []
    for seed in range(FIRST_SEED, FIRST_SEED + WORLDS):
        other += play(sides, seed)

    assert not other, "\n\n".join("\n".join(map(str, each)) for each in other)


@pytest.mark.parametrize("version", [12, 17])
def test_rights_that_change_within_a_fetch_session(sides: tuple[Side, Side], version: int) -> None:
    """A refusal is in each answer, beside the rest, until it may be read."""
    readable = ["a", "a", "ab", "ab", "b", "b", "", "", "ab", "ab"]
    answers: list[list[Any]] = []
    for side in sides:
        session_id = 0
        answers.append([])
        for epoch, names in enumerate(readable):
            side.set_rules({(2, name, 3, "User:bob", "*", 3, 3) for name in names})
            answer = side.fetch(version, () if epoch else ("a", "b"), session_id, epoch)
            session_id = session_id or answer["session_id"]
            told = {
                side.name_of(topic): [each["error_code"] for each in topic["partitions"]]
                for topic in answer["responses"]
            }
            answers[-1].append((answer["error_code"], answer["session_id"] == session_id, told))
        assert session_id

    assert answers[0] == answers[1]


def play(sides: tuple[Side, Side], seed: int) -> list[tuple[Any, ...]]:
    """Ask both sides the same and return what they answer differently."""
    draw = random.Random(seed)
    rules = make_rules(draw)
    for side in sides:
        side.set_rules(rules)
        side.mend()
    other = []
    for number in range(QUESTIONS):
        key = draw.choice(KEYS)
        answers = ask(sides, key, f"{seed}/{number}")
        if answers[0] != answers[1]:
            request = RightsRequests(random.Random(f"{seed}/{number}"), sides[0].ids).make(key)
            rows = [f"  {each}" for each in sorted(rules)]
            other.append((f"{seed}/{number} {BY_KEY[key].name}", *rows, request, *answers))
        for side in sides:
            if key in CHANGES_TOPICS:
                side.mend()
            if key in CHANGES_RULES:
                side.set_rules(rules)
    return other


def ask(sides: tuple[Side, Side], key: int, seed: str) -> list[Any]:
    """Return both answers; if they differ and nothing has changed by asking, after some tries."""

    def both() -> list[Any]:
        return [side.ask(RightsRequests(random.Random(seed), side.ids).make(key)) for side in sides]

    answers = both()
    if key in ONCE or answers[0] == answers[1]:
        return answers
    try:
        return wait_until(both, seed, lambda each: each[0] == each[1], timeout=SETTLES)
    except TimeoutError:
        return both()
