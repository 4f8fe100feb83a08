"""The prefixes of rules in order, so that one search finds all prefixes of a name."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice


class Prefixes:
    """Prefixes, each with its parent: the longest other prefix that it begins with (loop only).

    In order, all entries between a prefix and a name that begins with the prefix also begin with
    it. So the prefixes of a name are found by walking up from the last prefix that is not after the
    name.
    """

    __slots__ = ("_names", "_parents")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._parents: dict[str, str | None] = {}

    def add(self, prefix: str) -> None:
        """Add a prefix that is not known yet."""
        parent = self.find_longest(prefix)
        place = bisect_left(self._names, prefix)
        self._names.insert(place, prefix)
        self._parents[prefix] = parent
        self._hand_over(place + 1, prefix, parent, prefix)

    def remove(self, prefix: str) -> None:
        """Remove a known prefix."""
        place = bisect_left(self._names, prefix)
        del self._names[place]
        self._hand_over(place, prefix, prefix, self._parents.pop(prefix))

    def find_longest(self, name: str) -> str | None:
        """Return the longest prefix that a name begins with."""
        place = bisect_right(self._names, name)
        found = self._names[place - 1] if place else None
        while found is not None and not name.startswith(found):
            found = self._parents[found]
        return found

    def walk_up(self, prefix: str) -> Iterator[str]:
        """Yield a prefix and all other prefixes that it begins with."""
        found: str | None = prefix
        while found is not None:
            yield found
            found = self._parents[found]

    def _hand_over(self, start: int, prefix: str, before: str | None, after: str | None) -> None:
        """Change the parent from ``before`` to ``after`` for entries that begin with a prefix."""
        for each in islice(self._names, start, None):
            if not each.startswith(prefix):
                break
            if self._parents[each] == before:
                self._parents[each] = after
