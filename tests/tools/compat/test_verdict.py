"""The verdict of a run of a public suite about its allow-list."""

from tools.compat.suite import Outcome
from tools.compat.verdict import ALLOWED, Verdict, read_allowed

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def verdict(*, allowed: frozenset[str] = frozenset(), page: str = "") -> Verdict:
    """Return the verdict of a run in which one test went each way."""
    outcomes = {"good": PASSED, "bad": FAILED, "idle": SKIPPED}
    return Verdict(outcomes=outcomes, allowed=allowed, page=page)


def test_a_listed_test_that_fails_or_skips_itself_breaks_the_run() -> None:
    """The list may only grow: what is on it must pass."""
    found = verdict(allowed=frozenset(("good", "bad", "idle")))

    assert found.broken == ["bad", "idle"]


def test_a_class_is_listed_as_a_whole() -> None:
    """Then none of its tests may fail; a class with such a beginning is another one."""
    outcomes = {"some.Test#one": PASSED, "some.Test#two": FAILED, "some.TestOf#three": PASSED}
    found = Verdict(outcomes=outcomes, allowed=frozenset(("some.Test#*",)), page="")

    assert found.broken == ["some.Test#two"]
    assert found.unlisted == ["some.TestOf#three"]


def test_a_listed_test_that_was_not_run_breaks_nothing() -> None:
    """A run of a part of the suite says nothing about the rest."""
    found = verdict(allowed=frozenset(("good", "elsewhere")), page="`bad` `idle`")

    assert found.broken == []
    assert found.unlisted == []
    assert found.unexplained == []


def test_a_test_that_passes_unlisted_is_to_be_added() -> None:
    """A test that passes for the first time is reported."""
    assert verdict().unlisted == ["good"]


def test_what_does_not_pass_is_explained_on_the_page() -> None:
    """A test is explained where its whole name stands in backticks."""
    found = verdict(page="`bad` is about TLS; `idleness` is not idle")

    assert found.unexplained == ["idle"]


def test_a_class_is_explained_as_a_whole() -> None:
    """Where its name stands there, with what its tests have in common."""
    outcomes = {"some.Test#one": FAILED, "some.Test#two": SKIPPED, "some.TestOf#three": FAILED}
    found = Verdict(outcomes=outcomes, allowed=frozenset(), page="`some.Test` needs three brokers")

    assert found.unexplained == ["some.TestOf#three"]


def test_the_verdict_is_told_in_counts_and_names() -> None:
    """Every name that asks something of a person is printed."""
    lines = list(verdict(allowed=frozenset(("bad",))).lines())

    assert lines == [
        "1 passed, 1 failed, 1 skipped",
        "listed, but did not pass: bad",
        "passed; add to the list: good",
        "did not pass; explain on the page: idle",
    ]


def test_each_list_names_a_test_once() -> None:
    """A list is lines of names without gaps, and its file is the suite's name."""
    for path in ALLOWED.glob("*.txt"):
        names = path.read_text().splitlines()

        assert len(names) == len(read_allowed(path.stem)) > 0
