"""The checker, tried on histories that are known to be good and on doctored ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.tools.checker.planted import PLANTS
from tests.tools.checker.simulated_broker import IN, OUT
from tests.tools.checker.simulation import Simulation
from tools.checker.checker import check
from tools.checker.events import (
    Aborted,
    Acknowledged,
    AskCommit,
    Attempt,
    Bounds,
    Change,
    Committed,
    Doomed,
    Partition,
    Reached,
    Read,
    RecordId,
    Seek,
    Shown,
)
from tools.checker.faults import Kind

if TYPE_CHECKING:
    from tests.tools.checker.planted import Plant
    from tools.checker.events import Event

SEEDS = range(40)


def simulate(seed: int) -> list[Event]:
    """Return a good history."""
    return Simulation(random.Random(seed)).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_good_history_passes(seed: int) -> None:
    """Lost answers, aborts, dead producers and copiers are no fault of the broker's."""
    assert check(simulate(seed)) == []


def test_good_histories_hold_what_is_judged() -> None:
    """The silence above means something: commits, aborts and deaths in between are in it."""
    events = [event for seed in SEEDS for event in simulate(seed)]
    asked = [event for event in events if isinstance(event, AskCommit)]
    answered = [event for event in events if isinstance(event, Committed)]

    assert 0 < len(answered) < len(asked)
    assert any(isinstance(event, Aborted) for event in events)
    assert any(isinstance(event, Shown) and event.value is None for event in events)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found_and_named(plant: Plant) -> None:
    """Whatever the broker does wrong once is found in every history, and called what it is."""
    planted = 0
    for seed in range(100):
        simulation = Simulation(random.Random(seed), plant)
        faults = check(simulation.run())
        if simulation.is_planted:
            assert PLANTS[plant] in {fault.kind for fault in faults}, (seed, list(map(str, faults)))
            planted += 1
            if planted == 10:
                return

    pytest.fail(f"only {planted} of 100 histories had an opportunity for the fault")


def test_every_kind_of_fault_is_planted() -> None:
    """No rule of the checker goes without a history that breaks it."""
    assert {*PLANTS.values(), Kind.UNPROVEN} == set(Kind)


@pytest.mark.parametrize("committed", [False, True])
def test_a_log_that_is_not_read_to_its_end_proves_nothing(*, committed: bool) -> None:
    """Without a last reading from the start, under either isolation, there is no verdict."""
    history = simulate(7)
    start = history.index(Seek("judge", OUT[0], 0, committed))
    length = next(n for n, each in enumerate(history[start:], 1) if isinstance(each, Reached))

    faults = check(history[:start] + history[start + length :])

    assert Kind.UNPROVEN in {fault.kind for fault in faults}


def test_an_offset_that_is_not_shown_at_the_end_proves_nothing() -> None:
    """How much must have been copied is told by the offset that shows at the end."""
    thing = Simulation.offset_of("copier", IN[0])
    history: list[Event] = [*simulate(7), Change(thing, 10**6)]

    assert {fault.kind for fault in check(history)} == {Kind.UNPROVEN}


def test_a_topic_whose_deletion_was_asked_for_need_not_be_shown() -> None:
    """Its records are missed as long as nobody wants to be rid of them."""
    record = RecordId("ann", 0)
    history: list[Event] = [Attempt(record, IN[0], 1), Acknowledged(record, 0)]

    assert {fault.kind for fault in check(history)} == {Kind.UNPROVEN, Kind.LOST}
    assert check([*history, Doomed(IN[0])]) == []


def test_a_record_of_an_earlier_life_does_not_belong_to_a_topic() -> None:
    """Remains of a deleted topic that show under its name again are found."""
    record = RecordId("ann", 0)
    later = Partition("orders", 0, life=2)
    history: list[Event] = [
        Attempt(record, Partition("orders", 0, life=1), 1),
        Doomed(Partition("orders", 0, life=1)),
        Bounds(later, 0, 1),
        Seek("judge", later, 0),
        Read("judge", later, 0, record, 1),
        Reached("judge", later, 1),
    ]

    assert {fault.kind for fault in check(history)} == {Kind.MISPLACED}
