"""The output of `siltstone explain` for a person: sums, advice, columns, lines that fit."""

import json
from argparse import Namespace
from typing import Any

import pytest

from siltstone.broker.commands.cleaner import print_explanations
from siltstone.broker.commands.explain_text import explanation_lines
from siltstone.broker.commands.terminal import find_width, wrap
from siltstone.cleaner.explaining.advice import ADVICE, DONE, FAILED, advise, choose
from siltstone.cleaner.explaining.explanation import Rule

BECAUSE = "all that is dirty is in the active segment 0, which is never cleaned; " * 3


def facts(rule: str, partition: int = 0, **more: Any) -> dict[str, Any]:
    """Return the explanation of a partition of `orders`."""
    return {
        "topic": "orders",
        "partition": partition,
        "rule": rule,
        "eligible": rule in {"ratio-above", "max-lag", "requested"},
        "because": BECAUSE.strip(),
        "next_eligible_ms": None,
        **more,
    }


def test_every_reason_has_its_advice() -> None:
    """And what a stopped folder adds."""
    assert ADVICE.keys() == {*map(str, Rule), "unreadable"}
    assert ADVICE.keys() >= FAILED | DONE
    assert advise(facts("active-segment-only")) == (
        "set segment.ms, or siltstone clean --roll orders"
    )


def test_a_part_is_told_as_one() -> None:
    """Shares of the disk would be those of the part, so they are left out."""
    partitions = [
        facts("failed", 1, dirty_ratio=0.5, size_bytes=10),
        facts("failed", 1, topic="bills", dirty_ratio=0.5, size_bytes=10),
    ]

    whole, part = (
        list(explanation_lines(partitions, 0, in_detail=False, of_many=many)) for many in (2, 9)
    )

    assert whole[0] == "2 partitions: 2 failed, 0 waiting"
    assert "20 B on the disk, by topic:" in whole
    assert part[0] == "2 of 9 partitions: 2 failed, 0 waiting"
    assert not any("on the disk" in line for line in part)


def test_many_are_summed_up_by_reason_then_listed() -> None:
    """The commonest first, with what to do; the list has a heading."""
    partitions = [
        *(facts("active-segment-only", each, dirty_ratio=0.5) for each in range(30)),
        facts("failed", 30),
        facts("ratio-above", 31),
    ]

    lines = list(explanation_lines(partitions, 0, in_detail=False))

    assert lines[0] == "32 partitions: 1 failed, 30 waiting"
    assert lines[1].split() == [
        "30",
        "active-segment-only",
        *["set", "segment.ms,", "or", "siltstone", "clean", "--roll", "TOPIC"],
    ]
    assert lines[4] == ""
    assert lines[5].split() == ["PARTITION", "REASON", "DIRTY", "WHY"]
    assert lines[6].startswith("orders-0   active-segment-only   0.50  all that is dirty")
    assert lines[5].index("WHY") == lines[6].index("all that")
    assert len(lines) == 6 + 32


@pytest.mark.parametrize("in_detail", [False, True])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal(width: int, in_detail: bool) -> None:
    """Nothing is lost, and no word is broken."""
    partitions = [facts("active-segment-only", each) for each in range(2)]

    lines = list(explanation_lines(partitions, 0, in_detail=in_detail, width=width))
    whole = list(explanation_lines(partitions, 0, in_detail=in_detail))

    assert max(map(len, lines)) <= width
    assert max(map(len, whole)) > 180
    assert " ".join(lines).split() == " ".join(whole).split()


def test_a_long_word_stays_whole() -> None:
    """A path is to be copied."""
    path = "/" + "x" * 60

    assert wrap(f"look at {path} now", 30) == ["look at", f"    {path}", "    now"]


def test_the_terminal_says_how_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS goes first; what is no terminal has no width."""
    monkeypatch.setenv("COLUMNS", "77")
    assert find_width() == 77
    monkeypatch.setenv("COLUMNS", "0")
    assert find_width() is None


def test_filters(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that wait, those that failed, or both; JSON as well."""
    rules = ("active-segment-only", "failed", "ratio-above", "all-clean", "unreadable")
    partitions = [facts(rule, index) for index, rule in enumerate(rules)]

    def chosen(**which: bool) -> list[str]:
        return [each["rule"] for each in choose(partitions, **which)]

    assert chosen(waiting=True, failed=False) == ["active-segment-only"]
    assert chosen(waiting=False, failed=True) == ["failed", "unreadable"]
    assert chosen(waiting=True, failed=True) == ["active-segment-only", "failed", "unreadable"]
    assert chosen(waiting=False, failed=False) == list(rules)

    answer = {"now_ms": 0, "partitions": partitions}
    asked = Namespace(name=None, json=True, waiting=False, failed=True)
    print_explanations(answer, asked)
    told = json.loads(capsys.readouterr().out)
    assert [each["rule"] for each in told["partitions"]] == ["failed", "unreadable"]
    asked = Namespace(name=None, json=False, waiting=True, failed=False)
    print_explanations({"now_ms": 0, "partitions": [facts("empty")]}, asked)
    assert capsys.readouterr().out == "none of 1 partition waits\n"


def test_no_pass_by_time_alone() -> None:
    """Said as a sentence that can be read."""
    lines = list(explanation_lines([facts("empty")], 0, in_detail=True))

    assert "  next pass only after something changes" in lines
    assert "  to do     nothing" in lines


def test_topics_are_listed_by_the_room_that_they_take() -> None:
    """The largest first, with its share; one topic alone needs no list."""
    partitions = [
        facts("all-clean", 0, size_bytes=1024),
        facts("all-clean", 1, size_bytes=1024),
        facts("all-clean", topic="events", size_bytes=6144),
    ]

    lines = list(explanation_lines(partitions, 0, in_detail=False))
    alone = list(explanation_lines(partitions[:2], 0, in_detail=False))

    assert lines[2:5] == [
        "8 KiB on the disk, by topic:",
        "     6 KiB   75%  events, 1 partition",
        "     2 KiB   25%  orders, 2 partitions",
    ]
    assert not any("on the disk" in line for line in alone)
