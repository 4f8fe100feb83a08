"""Expressions in RE2's syntax and the topics that they match (Kafka: TopicRegexResolver).

RE2 takes time in proportion to the text whatever the expression, so a client cannot stall the
loop with one; a topic's name takes about 3 µs. What was matched once is remembered, and only names
that are new since then are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.regular_expression import compile_expression
from protocol.errors import InvalidRegularExpression

if TYPE_CHECKING:
    from broker.groups.topic_image import TopicImage


class _Known:
    """One expression: compiled, and what it made of the names so far."""

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

    def __len__(self) -> int:
        return len(self._known)

    def check(self, regex: str) -> None:
        """Refuse what is no expression.

        Raises:
            InvalidRegularExpression: RE2 does not take it.
        """
        if regex not in self._known:
            self._known[regex] = _Known(_compile(regex))

    def match(self, regex: str, image: TopicImage) -> frozenset[str]:
        """Return the topics whose whole name matches.

        Raises:
            InvalidRegularExpression: RE2 does not take it.
        """
        self.check(regex)
        known = self._known[regex]
        if known.version != image.version:
            names = image.names()
            fullmatch = known.pattern.fullmatch
            found = {name for name in names - known.seen if fullmatch(name)}
            known.matched = (known.matched & names) | found
            known.seen = frozenset(names)
            known.version = image.version
        return known.matched

    def forget(self, regex: str) -> None:
        """Drop an expression that a group gave up; another that has it compiles it again."""
        self._known.pop(regex, None)


def _compile(regex: str) -> Any:
    try:
        return compile_expression(regex)
    except InvalidRegularExpression as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.message}."
        ) from error
