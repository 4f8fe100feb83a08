"""Operators: they change the broker's own settings and have it read them again, as SIGHUP does.

Those that may change are in force at once, the others from the next start on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.requests import DESCRIBE_CONFIGS
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.history import Action, History

_AT_ONCE: Final = {
    "log.roll.ms": "1000",
    "log.preallocate": "true",
    "log.index.size.max.bytes": "96",
    "log.flush.interval.ms": "1000",
    "message.max.bytes": "100000",
}
_LATER: Final = {"num.partitions": "3"}
_ALL: Final = _AT_ONCE | _LATER
_BROKER: Final = 4, "1"
_STATIC: Final = 4
"""The source of a value that a file, a variable or `--set` gives."""


class Operators:
    """The operators of a history, whose broker gets its settings from variables, too.

    The steps come in place of others, by draws of their own.
    """

    WEIGHTS: Final = {"configure": 0}

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return a setting, and its value: None for the default."""
        name = rng.choice(list(_ALL))
        return [name, rng.choice((_ALL[name], _ALL[name], None))]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._wanted: dict[str, str] = {}
        self._in_force: dict[str, str] = {}
        self._has_come = False

    def play(self, kind: str, name: str, value: str | None) -> Action:
        """Change a setting, and have the broker read all again."""
        self._has_come = True
        environ = self._history.environ
        for known in (self._wanted, self._in_force) if name in _AT_ONCE else (self._wanted,):
            known.pop(name, None)
            known.update({name: value} if value else {})
        environ.clear()
        environ.update({_variable(each): text for each, text in self._wanted.items()})
        self._history.reload()
        yield from ()

    def restarted(self, way: str) -> None:
        """Note that all is in force."""
        self._in_force = dict(self._wanted)

    def judge(self) -> None:
        """Compare the settings in force with those that were given."""
        if self._has_come:
            self._history.run([self._compare()])

    def _compare(self) -> Action:
        client = self._history.client()
        asked = client.send(DESCRIBE_CONFIGS, ([(*_BROKER, list(_ALL))],))
        yield asked
        (told,) = asked.response.results
        own = {each.name: each.value for each in told.configs if each.config_source == _STATIC}
        if own != self._in_force:
            raise Wrong(f"the broker has the settings {own}, not {self._in_force}")
        client.reset()


def _variable(name: str) -> str:
    return f"SILTSTONE_{name.replace('.', '_').upper()}"
