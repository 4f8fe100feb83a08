"""Expressions in RE2's syntax and the topics that they match (Kafka: TopicRegexResolver).

RE2 takes time in proportion to the text, for any expression, so a client cannot stall the loop with
one. Matching one topic's name takes about 3 µs, and others are served after some names. Results are
kept; the next matching looks only at names that are new since then.
"""

from typing import Any, Final

from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.member_bytes import MemberBytes
from siltstone.broker.groups.regular_expression import compile_expression
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.errors import InvalidRegularExpression

# The memory of a compiled expression, measured with long texts, counts, alternatives and classes.
_EACH_BYTES: Final = 1000
_STEP_BYTES: Final = 13
_CHARACTER_BYTES: Final = 11


class _Known:
    """One expression: the groups that have it, and its results so far.

    It is kept compiled from the moment a member brings it until it is matched. ``size`` is the
    memory for that.
    """

    __slots__ = ("groups", "matched", "pattern", "seen", "size", "user", "version")

    def __init__(self) -> None:
        self.groups: set[str] = set()
        self.pattern: Any = None
        self.size = 0
        self.user = ""
        self.version = -1
        self.seen: frozenset[str] = frozenset()
        self.matched: frozenset[str] = frozenset()


class Regexes:
    """The expressions that members of any group subscribe to (loop only).

    The memory of compiled expressions counts as memory of the members.
    """

    def __init__(self, member_bytes: MemberBytes) -> None:
        self._member_bytes = member_bytes
        self._known: dict[str, _Known] = {}
        self._names: frozenset[str] = frozenset()
        self._names_version = -1
        self._newest = -1

    def __len__(self) -> int:
        return len(self._known)

    def check(self, regex: str, user: str = "") -> None:
        """Refuse a user's expression if RE2 refuses it.

        The caller calls `settle` or `forget` afterwards, even if the member is refused.

        Raises:
            InvalidRegularExpression: RE2 refuses the expression.
            CoordinatorLoadInProgress: The compiled expression would exceed group.members.max.bytes.
        """
        if regex in self._known:
            return
        pattern = _compile(regex)
        size = _size_of(pattern)
        self._member_bytes.check(size, user)
        self._keep(self._known.setdefault(regex, _Known()), pattern, user)

    def settle(self, regex: str, group: ConsumerGroup) -> None:
        """Keep an expression for a group if members subscribe to it; otherwise forget it."""
        if not group.count_subscribers(regex):
            self.forget(regex, group.group_id)
        elif regex in self._known:
            self._known[regex].groups.add(group.group_id)

    def forget(self, regex: str, group_id: str) -> None:
        """Forget an expression that a group does not have, unless another group has it."""
        known = self._known.get(regex)
        if known is not None:
            known.groups.discard(group_id)
            if not known.groups:
                self._let_go(known)
                del self._known[regex]

    def newest(self, image: TopicImage) -> int:
        """Return the version of the topics in which the last new topic was seen."""
        if self._names_version != image.version:
            self._names_version = image.version
            if not image.names() <= self._names:
                self._newest = image.version
            self._names = frozenset(image.names())
        return self._newest

    async def match(self, regex: str, image: TopicImage, share: LoopShare) -> frozenset[str]:
        """Return the topics whose whole name matches, and let others be served in between.

        The caller calls `settle` for the expression afterwards.

        Raises:
            InvalidRegularExpression: RE2 refuses the expression.
        """
        known = self._known.setdefault(regex, _Known())
        version = image.version
        if known.version != version:
            self.newest(image)
            names = self._names
            if known.pattern is None:
                self._keep(known, _compile(regex))
            fullmatch = known.pattern.fullmatch
            found: set[str] = set()
            for name in names - known.seen:
                if fullmatch(name):
                    found.add(name)
                await share.rest()
            known.matched = (known.matched & names) | found
            known.seen = names
            known.version = version
        self._let_go(known)
        return known.matched

    def _keep(self, known: _Known, pattern: Any, user: str = "") -> None:
        known.pattern = pattern
        known.user = user
        known.size = _size_of(pattern)
        self._member_bytes.add(known.size, user)

    def _let_go(self, known: _Known) -> None:
        """Drop the compiled form of an expression and keep only its text."""
        known.pattern = None
        self._member_bytes.add(-known.size, known.user)
        known.size = 0


def _size_of(pattern: Any) -> int:
    """Return an estimate of a compiled expression's bytes, since RE2 does not report them."""
    size: int = (
        _EACH_BYTES + _STEP_BYTES * pattern.programsize + _CHARACTER_BYTES * len(pattern.pattern)
    )
    return size


def _compile(regex: str) -> Any:
    try:
        return compile_expression(regex)
    except InvalidRegularExpression as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.message}."
        ) from error
