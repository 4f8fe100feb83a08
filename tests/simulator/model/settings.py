"""The settings that a topic may have: for each name the values that may be in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Changes = dict[str, str | None]
"""Values by their names; None has the setting follow the broker's."""


class Change:
    """A change that is on its way, and the settings of it that another one changes meanwhile."""

    def __init__(self, keys: Collection[str]) -> None:
        self.keys = frozenset(keys)
        self.crossed: frozenset[str] = frozenset()

    @property
    def alone(self) -> list[str]:
        """The settings that no other has changed meanwhile."""
        return sorted(self.keys - self.crossed)


class SettingsModel:
    """The settings of one life of a topic.

    A change that was acknowledged alone is exact. After one that was cut off, or failed at the
    disk, or met another of the same setting on its way, either value may be in force.
    """

    def __init__(self, settings: Mapping[str, str], partitions: int) -> None:
        self._possible: dict[str, list[str | None]] = {key: [settings[key]] for key in settings}
        self.counts = [partitions]
        self._under_way: list[Change] = []

    def restarted(self) -> None:
        """Note that nothing is on its way any more."""
        self._under_way.clear()

    def begin(self, keys: Collection[str]) -> Change:
        """Note that a change of settings is on its way; return it."""
        new = Change(keys)
        for other in self._under_way:
            both = new.keys & other.keys
            new.crossed |= both
            other.crossed |= both
        self._under_way.append(new)
        return new

    def end(self, change: Change) -> list[str]:
        """Note the answer to a change; return the settings of it that no other has changed."""
        if change in self._under_way:
            self._under_way.remove(change)
        return change.alone

    def unsure(self, changes: Changes) -> None:
        """Note that a change may come into force, or has."""
        for key, value in changes.items():
            known = self._possible.setdefault(key, [None])
            if value not in known:
                known.append(value)

    def acknowledged(self, change: Change, changes: Changes) -> None:
        """Note that a change is in force."""
        self._possible |= {key: [changes[key]] for key in self.end(change)}

    def refused(self, change: Change, before: Mapping[str, Sequence[str | None]]) -> None:
        """Note that a change has left nothing; ``before`` is what `possible` was."""
        self._possible |= {key: list(before.get(key, [None])) for key in self.end(change)}

    @property
    def possible(self) -> dict[str, tuple[str | None, ...]]:
        """The values that may be in force, for a change that may be refused."""
        return {key: tuple(values) for key, values in self._possible.items()}

    def may_be(self, key: str) -> tuple[str | None, ...]:
        """Return the values of a setting that may be in force."""
        return tuple(self._possible.get(key, [None]))

    def told(self, own: Mapping[str, str], *, is_settled: bool) -> None:
        """Compare with the settings that the topic has by itself.

        ``is_settled`` is true if nothing is on its way, so that what was told stays.

        Raises:
            Wrong: A setting has a value that it must not have.
        """
        for key in sorted({*own, *self._possible}):
            value = own.get(key)
            if value not in self.may_be(key):
                raise Wrong(f"{key} is {value}, not {' or '.join(map(str, self.may_be(key)))}")
            if is_settled:
                self._possible[key] = [value]
