"""The kinds of clients of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.admin import Admin
from tests.simulator.clients.askers import Askers
from tests.simulator.clients.backups import Backups
from tests.simulator.clients.compacted import Compacted
from tests.simulator.clients.consumers import Consumers
from tests.simulator.clients.groups import Groups
from tests.simulator.clients.members import Members
from tests.simulator.clients.migrants import Migrants
from tests.simulator.clients.moves import Moves
from tests.simulator.clients.operators import Operators
from tests.simulator.clients.pins import Pins
from tests.simulator.clients.producers import Producers
from tests.simulator.clients.records import Records
from tests.simulator.clients.rules import Rules
from tests.simulator.clients.sessions import Sessions
from tests.simulator.clients.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS: Final[Mapping[str, Any]] = {
    "records": Records,
    "producers": Producers,
    "compacted": Compacted,
    "transactions": Transactions,
    "groups": Groups,
    "members": Members,
    "admin": Admin,
    "consumers": Consumers,
    "sessions": Sessions,
    "rules": Rules,
    "moves": Moves,
    "migrants": Migrants,
    "pins": Pins,
    "operators": Operators,
    "askers": Askers,
    "backups": Backups,
}
"""Each part by its name. A part has the first four of these, and those others that it needs:

``WEIGHTS``            its kinds of steps, and how often they come
``PLACE``              which parameter of its steps says to which log they go, as a share of 1, and
                       perhaps the next one, too
``draw(rng)``          what it decides once for a history, as data; without it steps are rare ones
``draw_step(kind, rng)``  the parameters of a step, as data
``play(kind, ...)``    the action of a step: a generator that yields each question that it waits for
``settings_of(drawn)``  the broker's settings that follow from what it has drawn
``set_up()``           an action that comes before all steps
``stopped()``          called after a clean stop: the disk is as that has left it
``restarted(way)``     called after a start: ``stop``, ``kill`` or ``power``
``mended()``           called when the disk works again
``judge()``            compare all that clients can see with the model, while the disk is sound
``ended()``              called when the last life of the broker has ended
``rested()``           called at the end, when nothing is left to be done
``settled()``          called when all parts have judged after a start
"""


PART_OF: Final = {kind: name for name, part in PARTS.items() for kind in part.WEIGHTS}
"""The part of each kind of steps."""


def have_parts(parts: Mapping[str, Any], name: str, *arguments: Any) -> list[Any]:
    """Have all parts do something for which they have a method; return the results."""
    able = [part for part in parts.values() if hasattr(part, name)]
    return [getattr(part, name)(*arguments) for part in able]
