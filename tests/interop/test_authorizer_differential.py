"""Apache Kafka's StandardAuthorizer and ours over the same rules: they answer the same.

`AUTHORIZER_WORLDS` says how many sets of rules, `AUTHORIZER_SEED` with which they begin. Each world
has some rules, and 100 questions whether a client may do something with a resource, 40 whether with
any, and 20 for the rules that a filter asks for.
"""

import os
import random
from typing import NamedTuple

import pytest

from siltstone.broker.security.acl import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from siltstone.broker.security.authorizer import Authorizer
from siltstone.broker.security.principals import parse_super_users
from tests.support.java_program import run_program
from tests.support.kafka import KafkaJars
from tests.support.programs import run_to_end

WORLDS = int(os.environ.get("AUTHORIZER_WORLDS") or 60)
FIRST_SEED = int(os.environ.get("AUTHORIZER_SEED") or 0)
PATIENCE = 60.0
SUPER_USERS = "User:root;User:CN=admin, O=us"
NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "kafka-cluster", "hardcode", "é")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:root", "Group:alice", "User:a:b", "Role:*")
CLIENTS = tuple(each for each in PRINCIPALS if each != "User:*")
"""A client of that name is a fault of Apache Kafka's: its authorizer raises."""
HOSTS = (
    *("*", "192.0.2.1", "192.0.2.2", "2001:db8:0:0:0:0:0:1"),
    *("192.0.2.0/24", "192.0.2.3/31", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.0/33"),
)
ADDRESSES = ("192.0.2.1", "192.0.2.2", "198.51.100.7", "2001:db8::1")
KINDS = (2, 3, 4, 5, 6, 7)
OPERATIONS = range(2, 16)

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow]


class Question(NamedTuple):
    """A line for Apache Kafka, and what ours answers."""

    line: str
    answer: str


def make_rule(draw: random.Random) -> Acl:
    """Return a rule; few kinds and operations, so that rules meet."""
    pattern = Pattern(
        ResourceType(draw.choice((2, 2, 2, 3, *KINDS))),
        PatternType(draw.choice((3, 4))),
        draw.choice(NAMES),
    )
    return Acl(
        pattern,
        draw.choice(PRINCIPALS),
        draw.choice(("*", *HOSTS)),
        Operation(draw.choice((2, 3, 4, 8, *OPERATIONS))),
        Permission(draw.choice((2, 3, 3))),
    )


def play(seed: int) -> tuple[list[str], list[Question]]:
    """Return the rules of a world as lines, and its questions."""
    draw = random.Random(seed)
    allows = draw.random() < 0.5
    rules = list({make_rule(draw): None for _ in range(draw.choice((0, 1, 3, 8, 20, 60)))})
    ours = Authorizer(rules, super_users=parse_super_users(SUPER_USERS), allows_without_acls=allows)
    lines = [f"world\t{SUPER_USERS}\t{str(allows).lower()}"]
    lines += [_line("rule", *rule.pattern, *rule[1:]) for rule in rules]
    questions = []
    for _ in range(100):
        who, host = draw.choice(CLIENTS), draw.choice(ADDRESSES)
        operation, kind = draw.choice((3, 4, 8, *OPERATIONS)), draw.choice((2, 2, 3, *KINDS))
        name = draw.choice((*NAMES[1:], "abcd", "c", ""))
        may = ours.allows(who, host, operation, kind, name)
        questions.append(_question(may, "may", who, host, operation, kind, name))
    for _ in range(40):
        who, host = draw.choice(CLIENTS), draw.choice(ADDRESSES)
        operation, kind = draw.choice((3, 4, 8, *OPERATIONS[1:])), draw.choice((2, 2, 3, *KINDS))
        may = ours.allows_any(who, host, operation, kind)
        questions.append(_question(may, "any", who, host, operation, kind))
    for _ in range(20):
        wanted = AclFilter(
            ResourceType(draw.choice((1, 2))),
            PatternType(draw.choice((1, 2, 3, 4))),
            draw.choice((None, *NAMES)),
            draw.choice((None, None, *PRINCIPALS)),
            draw.choice((None, None, *HOSTS)),
            Operation(draw.choice((1, 1, 3))),
            Permission(draw.choice((1, 1, 2, 3))),
        )
        found = sorted(",".join(map(_text, (*acl.pattern, *acl[1:]))) for acl in ours.find(wanted))
        kind_and_pattern = wanted.resource_type, wanted.pattern_type
        questions.append(Question(_line("list", *kind_and_pattern, *wanted[2:]), ";".join(found)))
    return lines, questions


def _question(may: bool, *parts: object) -> Question:
    return Question(_line(*parts), "yes" if may else "no")


def _line(*parts: object) -> str:
    return "\t".join(map(_text, parts))


def _text(part: object) -> str:
    if part is None:
        return ""
    return str(int(part)) if isinstance(part, int) else str(part)


def test_apache_kafka_and_ours_answer_the_same(kafka_jars: KafkaJars) -> None:
    """At least 2,000 questions of each kind, over worlds of up to 60 rules."""
    worlds = [play(seed) for seed in range(FIRST_SEED, FIRST_SEED + WORLDS)]
    questions = [question for _, asked in worlds for question in asked]
    lines = [line for rules, asked in worlds for line in (*rules, *(each.line for each in asked))]
    done = run_to_end(
        run_program(kafka_jars, "AuthorizerOracle"),
        input="\n".join(lines) + "\n",
        encoding="utf-8",
        timeout=PATIENCE,
        check=True,
    )
    answers = done.stdout.splitlines()
    other = [
        (seed, question.line, question.answer, answers[place * 160 + number])
        for place, seed in enumerate(range(FIRST_SEED, FIRST_SEED + WORLDS))
        for number, question in enumerate(worlds[place][1])
        if question.answer != answers[place * 160 + number]
    ]

    assert len(answers) == len(questions)
    assert other == []
    assert {"yes", "no"} <= set(answers)
