"""Expressions over the names of topics, matched once."""

from collections.abc import Awaitable
from time import process_time

import pytest
import re2

from siltstone.broker.groups.consumer.regexes import Regexes
from siltstone.broker.groups.member_bytes import MemberBytes
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.errors import InvalidRegularExpression
from tests.support.consumer_groups import Topics, match_at_once
from tests.support.turns import slowness


def new_regexes() -> Regexes:
    """Return expressions of no group yet."""
    return Regexes(MemberBytes(lambda _: None))


@pytest.mark.parametrize(
    ("regex", "matched"),
    [
        ("a", {"a"}),
        ("a.*", {"a", "ab", "a.b"}),
        (".*b", {"ab", "a.b", "b"}),
        (r"a\.b", {"a.b"}),
        ("a|b", {"a", "b"}),
        ("(?i)A", {"a"}),
        ("[^a]+", {"b"}),
        ("", set()),
        ("^b$", {"b"}),
    ],
)
def test_the_whole_name_has_to_match(regex: str, matched: set[str]) -> None:
    """As Kafka's re2j does it."""
    topics = Topics(**dict.fromkeys(("a", "ab", "a.b", "b"), 1))

    assert match_at_once(new_regexes(), regex, topics) == matched


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("regex", ["(.*){1000}", "(" * 900 + ")" * 900, "(x+x+)+y"])
def test_no_expression_takes_long(regex: str) -> None:
    """A whole match is told without groups: clearly less work than RE2 has with them, if any."""
    names = [f"{number:050}" for number in range(500)]
    topics = Topics(**dict.fromkeys(names, 1))
    with_groups = re2.compile(regex)
    began = process_time()

    match_at_once(new_regexes(), regex, topics)

    ours, began = process_time() - began, process_time()
    for name in names:
        with_groups.fullmatch(name)
    theirs = process_time() - began
    assert ours < 0.75 * theirs + 0.1 * slowness()


def test_what_was_matched_follows_the_topics() -> None:
    """Names that come are looked at, those that go are dropped, and may come again."""
    topics, regexes = Topics(a1=1, a2=1, b=1), new_regexes()
    assert match_at_once(regexes, "a.", topics) == {"a1", "a2"}

    topics.drop("a1")
    topics.put("a3", 1)
    assert match_at_once(regexes, "a.", topics) == {"a2", "a3"}
    topics.put("a1", 1)

    assert match_at_once(regexes, "a.", topics) == {"a1", "a2", "a3"}


def test_others_have_their_turn_while_names_are_matched() -> None:
    """Others may be served after each of them."""
    topics = Topics()
    for number in range(1000):
        topics.put(f"t{number}", 1)

    rests = 0

    class Share(LoopShare):
        def rest(self) -> Awaitable[None]:
            nonlocal rests
            rests += 1
            return super().rest()

    with pytest.raises(StopIteration):
        new_regexes().match("t.*5", topics, Share(60.0)).send(None)
    assert rests == 1000


def test_only_a_topic_that_comes_is_news() -> None:
    """Not a topic that grows or goes: what matched it still holds."""
    topics, regexes = Topics(a=1, b=1), new_regexes()
    first = regexes.newest(topics)
    topics.put("a", 2)
    topics.drop("b")
    same = regexes.newest(topics)
    topics.put("c", 1)

    assert first == same == 2
    assert regexes.newest(topics) == topics.version == 5


def test_nothing_is_kept_of_what_is_no_expression() -> None:
    """Nor of one that was given up."""
    regexes = new_regexes()
    with pytest.raises(InvalidRegularExpression, match=r"`a\(` is not a valid"):
        regexes.check("a(")
    regexes.check("a")
    regexes.forget("a", "g")

    assert len(regexes) == 0


@pytest.mark.parametrize("is_matched", [True, False], ids=["matched", "given up"])
def test_what_is_compiled_counts(is_matched: bool) -> None:
    """It takes some 75 KB, which belong to what members have in memory until it is matched."""
    counted = MemberBytes(lambda _: None)
    regexes = Regexes(counted)
    regexes.check("[a-z]{999}" * 9)
    compiled = counted.size
    if is_matched:
        match_at_once(regexes, "[a-z]{999}" * 9, Topics(a=1))
    else:
        regexes.forget("[a-z]{999}" * 9, "g")

    assert 75_000 < compiled < 150_000
    assert counted.size == 0
