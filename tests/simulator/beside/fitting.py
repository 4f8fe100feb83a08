"""Histories that two brokers can play in step: nothing fails, restarts or waits for time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulator.clients.sessions import ALL_BYTES
from tests.simulator.history import RESTARTS
from tests.simulator.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulator.history import Plan, Step

_PARTS: Final = ("askers", "backups", "compacted", "migrants", "moves", "operators", "pins")
_LEFT_OUT: Final = {
    *("directory", "fault", "memory", "mend", "pause", "reload", *RESTARTS),
    *(kind for name in _PARTS for kind in PARTS[name].WEIGHTS),
}
"""All that fails or restarts, and all that a broker does in its own time."""
_UNKNOWN: Final = "no.such.setting"
"""A setting of brokers that is refused here, while Kafka keeps any."""
_LONG_MS: Final = 300_000
_MOST_SECONDS: Final = 0.05
_FIRST_WITH_IDS: Final = 5
"""From this version of JoinGroup on, members know their ids before they join."""


def fit(plan: Plan) -> Plan:
    """Return a plan without what fails, restarts or waits, and with long time-outs."""
    parts = dict(plan.parts)
    parts |= {
        "compacted": {},
        "moves": {},
        "rules": {"authorizes": False} if plan.parts["rules"] else {},
        "sessions": {"room": 1000} if plan.parts["sessions"] else {},
        "transactions": {
            **plan.parts["transactions"],
            "ids": [[version, 2 * _LONG_MS] for version, _ in plan.parts["transactions"]["ids"]],
            "first_epoch": 0,
            "compacted": {},
        },
        "members": {
            name: [[is_static, _LONG_MS] for is_static, _ in members]
            for name, members in plan.parts["members"].items()
        },
        "consumers": {
            **plan.parts["consumers"],
            "session_ms": _LONG_MS,
            "bands": {
                name: [{**each, "timeout_ms": _LONG_MS} for each in members]
                for name, members in plan.parts["consumers"]["bands"].items()
            },
        },
    }
    steps = [(number, each) for number, step in plan.steps for each in _flat(step)]
    settings = [each for each in plan.settings if not each.startswith("producer.id.expiration")]
    return plan._replace(settings=settings, parts=parts, steps=steps, wishes=[])


def _flat(step: Step) -> Iterator[Step]:
    """Yield the steps of a burst one after the other, and those that all brokers can do."""
    kind, *rest = step
    if kind in {"burst", "row"}:
        for each in rest[0]:
            yield from _flat(each)
    elif kind == "wait":
        yield [kind, min(rest[0], _MOST_SECONDS)]
    elif kind == "gather":  # all members, the leader first: their broker waits for nobody else
        yield [kind, rest[0], 0.0, 3, max(rest[3], _FIRST_WITH_IDS), False]
    elif kind == "leave":  # all members, so that the next ones to come wait for nobody
        yield from ([kind, rest[0], place] for place in (0.0, 0.34, 0.67))
    elif kind == "quit":  # for good: what is kept for a return waits for its session to end
        yield [kind, *rest[:2], False]
    elif kind == "poll_session":
        room = 1 if rest[4] == 1 else ALL_BYTES  # in Kafka, half a batch takes room from others
        yield [kind, *rest[:3], 0, room, rest[5]]
    elif kind == "commit_in_epoch" and rest[-1] == "stale":
        return  # whether it is taken goes by the ids of topics
    elif kind not in _LEFT_OUT and (kind != "rule" or rest[1] != _UNKNOWN):
        yield step
