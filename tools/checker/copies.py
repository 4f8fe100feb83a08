"""Exactly once: each record below a group's offset has one copy, and none above it has any."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.checker.events import CommittedOffset
from tools.checker.faults import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tools.checker.events import Partition, Thing
    from tools.checker.faults import Report
    from tools.checker.partition_log import PartitionLog
    from tools.checker.register import Register
    from tools.checker.transaction import Transaction


def judge(
    done: Iterable[Transaction],
    registers: Mapping[Thing, Register],
    logs: Mapping[Partition, PartitionLog],
    report: Report,
) -> None:
    """Report sources without a copy, with two, and copies without their source's commit.

    A record is copied by the group whose offset its transaction commits. The offset that showed
    last decides how much must have been copied.
    """
    copied: dict[CommittedOffset, Counter[int]] = {}
    for transaction in done:
        groups = {
            change.thing.partition: change.thing
            for change in transaction.changes
            if isinstance(change.thing, CommittedOffset)
        }
        for thing in groups.values():
            copied.setdefault(thing, Counter())
        for record in transaction.records:
            if record.source is not None and record.is_visible:
                if (group := groups.get(record.source.partition)) is not None:
                    copied[group][record.source.offset] += 1
                else:
                    what = f"{record.name} copies {record.source} without an offset for it"
                    report(Kind.TORN, what)
    for thing, counts in copied.items():
        register = registers[thing]
        if register.is_current:
            end = register.shown if isinstance(register.shown, int) else 0
            _compare(thing, counts, end, logs[thing.partition], report)
        else:
            report(Kind.UNPROVEN, f"the {thing} was not shown at the end")


def _compare(
    thing: CommittedOffset, counts: Counter[int], end: int, log: PartitionLog, report: Report
) -> None:
    for offset, record in log.held.items():
        where = f"{record.name} at {thing.partition}@{offset}"
        count = counts[offset]
        if count > 1:
            report(Kind.DOUBLED, f"{where} has {count} copies")
        elif count and offset >= end:
            report(Kind.TORN, f"{where} has a copy, but the {thing} is {end}")
        elif not count and offset < end and (record.transaction is None or record.is_visible):
            report(Kind.LOST, f"{where} has no copy, but the {thing} is {end}")
