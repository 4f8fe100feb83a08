"""Faults that are planted in the simulated broker, and what the checker must call each.

Each function plants its fault if it finds the opportunity, and returns whether it did.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.tools.checker.simulated_broker import IN, Stored
from tools.checker.events import (
    Aborted,
    Acknowledged,
    AskCommit,
    Change,
    Changed,
    Committed,
    CommittedOffset,
    Position,
    RecordId,
    Shape,
    Shown,
)
from tools.checker.faults import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.tools.checker.simulation import Simulation
    from tools.checker.events import Event, Partition, Thing, Value

    Plant = Callable[[Simulation], bool]


def _acknowledged(simulation: Simulation) -> list[tuple[Partition, int, Stored]]:
    """Return the acknowledged plain records."""
    names = {each.record for each in simulation.history if isinstance(each, Acknowledged)}
    return [
        (partition, offset, each)
        for partition in IN
        for offset, each in enumerate(simulation.broker.logs[partition])
        if each is not None and each.record in names
    ]


def cut_the_end(simulation: Simulation) -> bool:
    """Forget the last record of a log, which was acknowledged."""
    for partition, offset, _ in _acknowledged(simulation):
        log = simulation.broker.logs[partition]
        if offset == len(log) - 1:
            log.pop()
            return True
    return False


def drop_in_the_middle(simulation: Simulation) -> bool:
    """Show nothing where an acknowledged record is."""
    found = _acknowledged(simulation)
    if found:
        partition, offset, _ = simulation.random.choice(found)
        simulation.broker.empty.add(Position(partition, offset))
    return bool(found)


def hide_from_transactions(simulation: Simulation) -> bool:
    """Hide an acknowledged plain record from readers under read_committed."""
    found = _acknowledged(simulation)
    if found:
        simulation.broker.hidden.add(simulation.random.choice(found)[2].record)
    return bool(found)


def write_twice(simulation: Simulation) -> bool:
    """Append an acknowledged record once more."""
    found = _acknowledged(simulation)
    if found:
        partition, _, stored = simulation.random.choice(found)
        simulation.broker.logs[partition].append(stored)
    return bool(found)


def alter(simulation: Simulation) -> bool:
    """Flip a bit of a record."""
    found = _acknowledged(simulation)
    if found:
        simulation.random.choice(found)[2].content ^= 1 << simulation.random.randrange(64)
    return bool(found)


def _swap(simulation: Simulation, *, same_producer: bool) -> bool:
    found = _acknowledged(simulation)
    pairs = [
        (here, there, partition)
        for partition, here, one in found
        for other, there, two in found
        if here < there
        and other == partition
        and (one.record.producer == two.record.producer) is same_producer
    ]
    if pairs:
        here, there, partition = simulation.random.choice(pairs)
        log = simulation.broker.logs[partition]
        log[here], log[there] = log[there], log[here]
    return bool(pairs)


def swap(simulation: Simulation) -> bool:
    """Let two producers' records change places."""
    return _swap(simulation, same_producer=False)


def reorder(simulation: Simulation) -> bool:
    """Let two records of one producer change places."""
    return _swap(simulation, same_producer=True)


def misplace(simulation: Simulation) -> bool:
    """Write a record to the other partition as well."""
    found = _acknowledged(simulation)
    if found:
        partition, _, stored = simulation.random.choice(found)
        simulation.broker.logs[IN[1 - partition.number]].append(stored)
    return bool(found)


def invent(simulation: Simulation) -> bool:
    """Write what nobody sent."""
    simulation.broker.logs[IN[0]].append(Stored(RecordId("nobody", 1), 1))
    return True


def leave_a_hole(simulation: Simulation) -> bool:
    """Give no record an offset."""
    log = simulation.broker.logs[IN[0]]
    simulation.broker.empty.add(Position(IN[0], len(log)))
    log.append(None)
    return True


def reuse(simulation: Simulation) -> bool:
    """Give the offset of an acknowledged record to a new one."""
    found = _acknowledged(simulation)
    if found:
        partition, offset, _ = simulation.random.choice(found)
        simulation.broker.logs[partition][offset] = simulation.new_record("carl", partition)
    return bool(found)


def _ended(simulation: Simulation, how: type[Aborted | Committed]) -> list[str]:
    """Return the transactions that the broker said it ended so, the newest first."""
    return [each.transaction for each in reversed(simulation.history) if isinstance(each, how)]


def _unasked(simulation: Simulation) -> list[str]:
    asked = {each.transaction for each in simulation.history if isinstance(each, AskCommit)}
    return sorted(simulation.broker.outcomes.keys() - asked)


def show_an_aborted_one(simulation: Simulation) -> bool:
    """Show the records of an aborted transaction."""
    for name in _ended(simulation, Aborted):
        simulation.broker.outcomes[name] = True
        return True
    return False


def show_an_abandoned_one(simulation: Simulation) -> bool:
    """Show the records of a transaction whose producer died before it could commit."""
    for name in _unasked(simulation):
        simulation.broker.outcomes[name] = True
        return True
    return False


def tear_records(simulation: Simulation) -> bool:
    """Hide one record of several of a committed transaction."""
    for name in _ended(simulation, Committed):
        records = [
            each.record
            for log in simulation.broker.logs.values()
            for each in log
            if each is not None and each.transaction == name
        ]
        if len(records) > 1:
            simulation.broker.hidden.add(simulation.random.choice(records))
            return True
    return False


def lose_a_transaction(simulation: Simulation) -> bool:
    """Hide all records of a committed transaction."""
    for name in _ended(simulation, Committed):
        simulation.broker.outcomes[name] = False
        return True
    return False


def _offset_in(simulation: Simulation, transaction: str) -> tuple[Thing, Value]:
    (change,) = (
        each
        for each in simulation.history
        if isinstance(each, Change) and each.transaction == transaction
    )
    return change.thing, change.value


def tear_the_offset_off(simulation: Simulation) -> bool:
    """Commit a transaction without its offset."""
    for name in _ended(simulation, Committed):
        thing, value = _offset_in(simulation, name)
        if simulation.broker.values[thing] == value:
            simulation.broker.values[thing] = simulation.broker.former[thing][-2]
            return True
    return False


def keep_an_aborted_offset(simulation: Simulation) -> bool:
    """Abort a transaction but for its offset."""
    asked = Counter(_offset_in(simulation, name) for name in simulation.broker.outcomes)
    for name in _ended(simulation, Aborted):
        thing, value = _offset_in(simulation, name)
        if asked[thing, value] == 1:
            simulation.broker.values[thing] = value
            return True
    return False


def copy_twice(simulation: Simulation) -> bool:
    """Let somebody copy what was copied: the fence of its producer's epoch is down."""
    for partition in IN:
        end = simulation.broker.values.get(simulation.offset_of("copier", partition))
        if isinstance(end, int):
            (offset, stored), *_ = simulation.broker.read(partition, 0, committed=True)
            simulation.copy_once_more(Position(partition, offset), stored)
            return True
    return False


def _take_back(simulation: Simulation, kind: type, said: type[Changed | Shown]) -> bool:
    """Give a thing the value from before the one that the broker acknowledged, or showed, last."""
    for event in reversed(simulation.history):
        if isinstance(event, said) and isinstance(event.thing, kind):
            thing, former = event.thing, simulation.broker.former[event.thing]
            if former[-1] == event.value == simulation.broker.values.get(thing) and former[1:]:
                simulation.broker.values[thing] = former[-2]
                return True
    return False


def lose_a_commit(simulation: Simulation) -> bool:
    """Forget an acknowledged commit of a group."""
    return _take_back(simulation, CommittedOffset, Changed)


def let_a_commit_go_back(simulation: Simulation) -> bool:
    """Go back behind an offset that a group has seen."""
    return _take_back(simulation, CommittedOffset, Shown)


def invent_a_commit(simulation: Simulation) -> bool:
    """Show an offset that nobody committed."""
    simulation.broker.values[simulation.offset_of("readers", IN[0])] = 10**6
    return True


def _topics(simulation: Simulation, value: type) -> list[Shape]:
    """Return the topics whose last change was acknowledged and left such a value."""
    last: dict[Shape, Change | Changed] = {}
    for event in simulation.history:
        if isinstance(event, Change | Changed) and isinstance(event.thing, Shape):
            last[event.thing] = event
    return [
        thing
        for thing, event in last.items()
        if isinstance(event, Changed) and isinstance(event.value, value)
    ]


def lose_a_topic(simulation: Simulation) -> bool:
    """Forget a topic whose creation was acknowledged."""
    for thing in _topics(simulation, int):
        simulation.broker.values[thing] = None
        return True
    return False


def bring_a_topic_back(simulation: Simulation) -> bool:
    """Bring a topic back whose deletion was acknowledged."""
    for thing in _topics(simulation, type(None)):
        simulation.broker.values[thing] = simulation.broker.former[thing][-2]
        return True
    return False


def delete_late(simulation: Simulation) -> bool:
    """Delete a topic long after the request for it had been forgotten."""
    last: dict[Thing, Event] = {}
    for event in simulation.history:
        if isinstance(event, Change | Changed) and isinstance(event.thing, Shape):
            last[event.thing] = event
    for thing, event in last.items():
        forgotten = isinstance(event, Change) and event.value is None
        if forgotten and simulation.broker.values.get(thing) is not None:
            simulation.broker.values[thing] = None
            return True
    return False


PLANTS: dict[Plant, Kind] = {
    cut_the_end: Kind.LOST,
    drop_in_the_middle: Kind.LOST,
    hide_from_transactions: Kind.LOST,
    lose_a_transaction: Kind.LOST,
    write_twice: Kind.DOUBLED,
    copy_twice: Kind.DOUBLED,
    alter: Kind.ALTERED,
    invent: Kind.INVENTED,
    misplace: Kind.MISPLACED,
    swap: Kind.SWAPPED,
    reorder: Kind.REORDERED,
    leave_a_hole: Kind.HOLE,
    reuse: Kind.REUSED,
    show_an_aborted_one: Kind.ABORTED_READ,
    show_an_abandoned_one: Kind.ABORTED_READ,
    tear_records: Kind.TORN,
    tear_the_offset_off: Kind.TORN,
    keep_an_aborted_offset: Kind.TORN,
    lose_a_commit: Kind.CHANGE_LOST,
    lose_a_topic: Kind.CHANGE_LOST,
    bring_a_topic_back: Kind.CHANGE_LOST,
    let_a_commit_go_back: Kind.CHANGE_UNDONE,
    delete_late: Kind.CHANGE_REVIVED,
    invent_a_commit: Kind.CHANGE_INVENTED,
}
