"""Expressions in RE2's syntax and the topics that they match (Kafka: TopicRegexResolver).

RE2 takes time in proportion to the text, whatever the expression, so a client cannot stall the loop
with one. A topic's name takes about 3 µs, and others are served after some names. Results are kept,
and only names that are new since then are looked at.
"""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.groups.regular_expression import compile_expression
from siltstone.protocol.errors import InvalidRegularExpression

if TYPE_CHECKING:
    from collections.abc import Generator

    from siltstone.broker.groups.topic_image import TopicImage


_NAMES_AT_A_TIME: Final = 100
_SECONDS: Final = 0.002


class _Known:
    """One expression, compiled, and its results so far."""

    __slots__ = ("matched", "pattern", "seen", "version")

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        self.version = -1
        self.seen: frozenset[str] = frozenset()
        self.matched: frozenset[str] = frozenset()


class Regexes:
    """The expressions of all groups (loop only)."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._names: frozenset[str] = frozenset()
        self._names_version = -1
        self._newest = -1

    def __len__(self) -> int:
        return len(self._known)

    def check(self, regex: str) -> None:
        """Refuse an expression that RE2 does not take.

        Raises:
            InvalidRegularExpression: RE2 does not take it.
        """
        if regex not in self._known:
            self._known[regex] = _Known(_compile(regex))

    def newest(self, image: TopicImage) -> int:
        """Return the version of the topics in which the last new one was seen."""
        if self._names_version != image.version:
            self._names_version = image.version
            if not image.names() <= self._names:
                self._newest = image.version
            self._names = frozenset(image.names())
        return self._newest

    def match(self, regex: str, image: TopicImage) -> Generator[None, None, frozenset[str]]:
        """Return the topics whose whole name matches; yields where others may be served.

        Raises:
            InvalidRegularExpression: RE2 does not take it.
        """
        self.check(regex)
        known = self._known[regex]
        version = image.version
        if known.version != version:
            names = frozenset(image.names())
            fullmatch = known.pattern.fullmatch
            found: set[str] = set()
            rest = iter(names - known.seen)
            while some := list(islice(rest, _NAMES_AT_A_TIME)):
                pause = perf_counter() + _SECONDS
                for name in some:
                    if fullmatch(name):
                        found.add(name)
                    if perf_counter() > pause:  # RE2 is slower where it runs out of memory
                        yield
                        pause = perf_counter() + _SECONDS
                yield
            known.matched = (known.matched & names) | found
            known.seen = names
            known.version = version
        return known.matched

    def forget(self, regex: str) -> None:
        """Drop an expression that a group gave up; another group compiles it again."""
        self._known.pop(regex, None)


def _compile(regex: str) -> Any:
    try:
        return compile_expression(regex)
    except InvalidRegularExpression as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.message}."
        ) from error
