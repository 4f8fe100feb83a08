"""Histories as text: kept when they failed once, and read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.simulator.history import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulator.history import History


def as_test(history: History, fault: str) -> str:
    """Return a history as data, ready to be kept among the histories that once failed."""
    plan = history.plan
    steps = [(number, history.named.get(number, step)) for number, step in plan.steps]
    wishes = [list(each) for each in history.faults.came_true]
    return json.dumps({"fault": fault, **plan._replace(steps=steps, wishes=wishes)._asdict()})


def read_plan(path: Path) -> Plan:
    """Return a history from a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It has no history, or one of another version of the simulator.
    """
    try:
        fields = json.loads(path.read_text())
        fields.pop("fault", None)
        fields["steps"] = [(number, step) for number, step in fields["steps"]]
        return Plan(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} has no history of this version of the simulator") from error
