"""Proves from a history that a broker kept its word, or says where it did not.

Pure: events come in, faults come out. Every event is judged against what came before it, so a
campaign can stop at the first fault; `finish` judges what only the whole history can tell.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING

from tools.checker import copies
from tools.checker.events import (
    Aborted,
    Acknowledged,
    AskCommit,
    Attempt,
    Bounds,
    Change,
    Changed,
    Committed,
    Doomed,
    Event,
    Marker,
    Partition,
    Reached,
    Read,
    RecordId,
    Seek,
    Shown,
    Thing,
)
from tools.checker.faults import Fault, Kind
from tools.checker.partition_log import PartitionLog
from tools.checker.record import Record
from tools.checker.register import Register
from tools.checker.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable


def check(history: Iterable[Event]) -> list[Fault]:
    """Return every fault that a whole history proves."""
    checker = Checker()
    for event in history:
        checker.take(event)
    checker.finish()
    return checker.faults


class Cursor:
    """Where a reader stands in a partition, and the last record of each producer that it saw."""

    __slots__ = ("committed", "from_start", "last", "offset")

    def __init__(self, offset: int, *, committed: bool) -> None:
        self.offset = offset
        self.committed = committed
        self.from_start = offset == 0
        self.last: dict[str, int] = {}


class Checker:
    """All that a history has told so far, and the faults that it proves."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.records: dict[RecordId, Record] = {}
        self.logs: dict[Partition, PartitionLog] = {}
        self.registers: dict[Thing, Register] = {}
        self.transactions: dict[str, Transaction] = {}
        self._cursors: dict[tuple[str, Partition], Cursor] = {}

    def report(self, kind: Kind, facts: str) -> None:
        """Note a fault."""
        self.faults.append(Fault(kind, facts))

    def finish(self) -> None:
        """Judge transactions as wholes, copies, and what was never shown."""
        transactional = {
            record.partition for each in self.transactions.values() for record in each.records
        }
        for partition, log in self.logs.items():
            log.finish(transactional=partition in transactional)
        done = [each for each in self.transactions.values() if each.judge(self.report)]
        copies.judge(done, self.registers, self.logs, self.report)

    @singledispatchmethod
    def take(self, event: Event) -> None:
        """Take the next event of the history."""
        raise TypeError(f"{event} is no event")

    @take.register
    def _(self, event: Attempt) -> None:
        transaction = self._transaction(event.transaction)
        record = self.records.setdefault(event.record, Record(event, transaction))
        if transaction is not None:
            transaction.records.append(record)
        self._log(event.partition)

    @take.register
    def _(self, event: Acknowledged) -> None:
        record = self.records.get(event.record)
        if record is None:
            self.report(Kind.INVENTED, f"{event.record} acknowledged at {event.offset}")
        else:
            self._log(record.partition).acknowledge(record, event.offset)

    @take.register
    def _(self, event: Bounds) -> None:
        self._log(event.partition).bound(event.start, event.end)

    @take.register
    def _(self, event: Doomed) -> None:
        self._log(event.partition).is_doomed = True

    @take.register
    def _(self, event: Seek) -> None:
        cursor = Cursor(event.offset, committed=event.committed)
        self._cursors[event.reader, event.partition] = cursor

    @take.register
    def _(self, event: Read) -> None:
        cursor = self._cursors[event.reader, event.partition]
        where = f"{event.partition}@{event.offset}"
        if event.offset < cursor.offset:
            self.report(Kind.REORDERED, f"{where} was given to {event.reader} after later ones")
            return
        log = self._log(event.partition)
        log.skip(range(cursor.offset, event.offset), committed=cursor.committed)
        cursor.offset = event.offset + 1
        record = self.records.get(event.record)
        if record is None:
            self.report(Kind.INVENTED, f"{where} holds {event.record}")
            return
        if event.content != record.content:
            self.report(Kind.ALTERED, f"{where} holds another {event.record} than was sent")
        log.hold(record, event.offset)
        if event.record.sequence <= (last := cursor.last.get(event.record.producer, -1)):
            self.report(Kind.REORDERED, f"{where} holds {event.record}, {last} came before it")
        cursor.last[event.record.producer] = event.record.sequence
        if cursor.committed:
            self._show(record, where)

    def _show(self, record: Record, where: str) -> None:
        """Note that a record is read under read_committed."""
        record.is_visible = True
        transaction = record.transaction
        if transaction is not None and not transaction.may_show:
            state = "aborted" if transaction.is_aborted else "open"
            self.report(
                Kind.ABORTED_READ, f"{where} shows {record.name} of {state} {transaction.name}"
            )

    @take.register
    def _(self, event: Reached) -> None:
        cursor = self._cursors[event.reader, event.partition]
        log = self._log(event.partition)
        log.skip(range(cursor.offset, event.offset), committed=cursor.committed)
        cursor.offset = max(cursor.offset, event.offset)
        if cursor.from_start:
            log.show_all(event.offset, committed=cursor.committed)

    @take.register
    def _(self, event: Marker) -> None:
        self._log(event.partition).markers.add(event.offset)

    @take.register
    def _(self, event: AskCommit) -> None:
        self.transactions[event.transaction].is_asked = True

    @take.register
    def _(self, event: Committed) -> None:
        transaction = self.transactions[event.transaction]
        transaction.is_committed = True
        for entry in transaction.changes:
            self._register(entry.thing).acknowledge(entry)

    @take.register
    def _(self, event: Aborted) -> None:
        transaction = self.transactions[event.transaction]
        transaction.is_aborted = True
        for entry in transaction.changes:
            self._register(entry.thing).withdraw(entry)

    @take.register
    def _(self, event: Change) -> None:
        register = self._register(event.thing)
        entry = register.ask(event.value)
        transaction = self._transaction(event.transaction)
        if transaction is not None:
            transaction.changes.append(entry)

    @take.register
    def _(self, event: Changed) -> None:
        self._register(event.thing).acknowledge_last(event.value, self.report)

    @take.register
    def _(self, event: Shown) -> None:
        register = self._register(event.thing)
        register.show(event.value, self.report, settled=event.settled)

    def _transaction(self, name: str | None) -> Transaction | None:
        if name is None:
            return None
        return self.transactions.setdefault(name, Transaction(name))

    def _log(self, partition: Partition) -> PartitionLog:
        log = self.logs.get(partition)
        if log is None:
            log = self.logs[partition] = PartitionLog(partition, self.report)
        return log

    def _register(self, thing: Thing) -> Register:
        register = self.registers.get(thing)
        if register is None:
            register = self.registers[thing] = Register(thing)
        return register
