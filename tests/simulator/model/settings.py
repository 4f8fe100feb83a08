"""The settings that a topic may have: for each name the values that may be in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Changes = dict[str, str | None]
"""Values by their names; None has the setting follow the broker's."""


class SettingsModel:
    """The settings of one life of a topic.

    A change that was acknowledged alone is exact. After one that was cut off, or failed at the
    disk, or met another on its way, either value may be in force.
    """

    def __init__(self, settings: Mapping[str, str], partitions: int) -> None:
        self._possible: dict[str, list[str | None]] = {key: [settings[key]] for key in settings}
        self.counts = [partitions]
        self._changes = 0
        self._open = 0
        self._is_shared = False

    def restarted(self) -> None:
        """Note that nothing is on its way any more."""
        self._open = 0
        self._is_shared = False

    def begin(self) -> int:
        """Note that a change is on its way; return its number."""
        self._changes += 1
        self._open += 1
        self._is_shared = self._open > 1
        return self._changes

    def is_alone(self, change: int) -> bool:
        """Note the answer to a change; tell whether no other was on its way meanwhile."""
        self._open -= 1
        is_alone = change == self._changes and not self._is_shared
        if not self._open:
            self._is_shared = False
        return is_alone

    def unsure(self, changes: Changes) -> None:
        """Note that a change may come into force, or has."""
        for key, value in changes.items():
            known = self._possible.setdefault(key, [None])
            if value not in known:
                known.append(value)

    def acknowledged(self, change: int, changes: Changes) -> None:
        """Note that a change is in force."""
        if self.is_alone(change):
            self._possible |= {key: [value] for key, value in changes.items()}

    def refused(self, change: int, before: Mapping[str, Sequence[str | None]]) -> None:
        """Note that a change has left nothing; ``before`` is what `possible` was."""
        if self.is_alone(change):
            self._possible = {key: list(values) for key, values in before.items()}

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
