"""Clients that ask for much and change nothing, in all versions of APIs, some without rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.api import BY_KEY
from tests.simulator.clients.inquiries import CLUSTER, GROUP, ID, INQUIRIES, OWN, TOPIC, Lot, read
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.clients.inquiries import Wanted
    from tests.simulator.clients.rules import Rules
    from tests.simulator.history import Action, History

STRANGER: Final = "10.0.0.66"
"""The address of a client that rules may bar."""
_RESOURCES: Final = {  # as `Rules` writes them, without the client and what it may
    CLUSTER: "kafka-cluster 3 {} 4",
    TOPIC: f"{OWN} 3 {{}}",
    GROUP: "* 3 {} 3",
    ID: "* 3 {} 5",
}
_ALLOW, _DENY = "User:* * 2 3", f"User:* {STRANGER} 2 2"
BARS: Final = "; ".join(
    each.format(rule) for each in _RESOURCES.values() for rule in (_ALLOW, _DENY)
)
"""Rules that bar the stranger from most things, and no other client."""


class Askers:
    """The clients of a history that ask.

    Its steps come beside those of other parts, by draws of their own.
    """

    WEIGHTS: Final = {"ask": 0}

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return what is asked, in which version as a share of 1, and by which client."""
        names = list(INQUIRIES)
        return [rng.choice(names), rng.randrange(1 << 30), rng.random() < 0.3]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._client = history.client()
        self._stranger = history.client(host=STRANGER)

    def play(self, kind: str, name: str, number: int, is_strange: bool) -> Action:
        """Ask, and compare the answer with what must be in it."""
        inquiry = INQUIRIES[name]
        api = BY_KEY[inquiry.key]
        client = self._stranger if is_strange else self._history.beside(self._client)
        versions = [each for each in api.versions if inquiry.first <= each <= inquiry.last]
        version = versions[number % len(versions)]

        def draw() -> tuple[Any, Wanted | None]:
            return inquiry.make(self._lot(number, version, is_strange))

        row, wanted = draw()
        asked = client.send(inquiry.key, row, version)
        yield asked
        if asked.is_lost:
            return
        _, later = draw()
        self._history.tell(f"  {name} {version}")
        found = list(read(asked.answer, "" if wanted and () in wanted else inquiry.path))
        what = f"{api.name} {version} of {row}, {name} {number}: {found}"
        if len(dict(found)) < len(found):
            raise Wrong(f"the answer names something twice: {what}")
        if wanted is None or later is None or not self._history.is_sound:
            return
        if wanted.keys() != dict(found).keys():
            raise Wrong(f"the answer has other things than {list(wanted)}: {what}")
        for thing, code in found:
            if code not in (allowed := wanted[thing] | later.get(thing, set())):
                raise Wrong(f"{thing} has error {code}, not {allowed}: {what}")

    def _lot(self, number: int, version: int, is_strange: bool) -> Lot:
        rules: Rules = self._history.parts["rules"]

        def may(kind: str, name: str) -> bool | None:
            if not is_strange or (kind == TOPIC and name != OWN):
                return True
            return rules.is_free(_RESOURCES[kind].format(_DENY))

        topics = self._history.parts["records"].topics
        has_sessions = bool(self._history.plan.parts["sessions"])
        return Lot(number, version, topics, may, rules.authorizes, has_sessions)
