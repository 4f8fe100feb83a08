"""Compares a run with the allow-list: the names of tests that pass, a list that may only grow.

``class#*`` lists all tests of a class.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.compat.suite import Outcome

ALLOWED = Path(__file__).parent / "allowed"
PAGE = Path(__file__).parents[2] / "docs" / "compat.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcomes of a suite's run, its allow-list, and the page of tests that do not pass."""

    outcomes: Mapping[str, Outcome]
    allowed: frozenset[str]
    page: str

    @property
    def broken(self) -> list[str]:
        """Tests that are listed and did not pass: the run fails."""
        return [name for name in self._others() if is_listed(name, self.allowed)]

    @property
    def unlisted(self) -> list[str]:
        """Tests that passed and are to be added to the list."""
        return [name for name in self._passed() if not is_listed(name, self.allowed)]

    @property
    def unexplained(self) -> list[str]:
        """Tests that did not pass, are not listed, and are not explained on the page.

        The page may also name the class of a test, the text before ``#``.
        """
        return [
            name
            for name in self._others()
            if not is_listed(name, self.allowed)
            and f"`{name}`" not in self.page
            and f"`{name.partition('#')[0]}`" not in self.page
        ]

    def lines(self) -> Iterator[str]:
        """Yield the lines about the run for a person."""
        counts = dict.fromkeys(Outcome, 0)
        for outcome in self.outcomes.values():
            counts[outcome] += 1
        yield ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items())
        for title, names in (
            ("listed, but did not pass", self.broken),
            ("passed; add to the list", self.unlisted),
            ("did not pass; explain on the page", self.unexplained),
        ):
            yield from (f"{title}: {name}" for name in names)

    def _passed(self) -> list[str]:
        return [name for name, outcome in self.outcomes.items() if outcome is Outcome.PASSED]

    def _others(self) -> list[str]:
        return [name for name, outcome in self.outcomes.items() if outcome is not Outcome.PASSED]


def is_listed(name: str, allowed: frozenset[str]) -> bool:
    """Tell whether an allow-list has a test, or all tests of its class."""
    return name in allowed or f"{name.partition('#')[0]}#*" in allowed


def read_allowed(suite: str) -> frozenset[str]:
    """Return the allow-list of a suite; it is empty if the file does not exist."""
    path = ALLOWED / f"{suite}.txt"
    return frozenset(path.read_text().split("\n")) - {""} if path.exists() else frozenset()
