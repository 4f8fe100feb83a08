"""Knowledge of one partition's log: one offset has one record for ever, and none is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.checker.faults import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.checker.events import Partition
    from tools.checker.faults import Report
    from tools.checker.record import Record


class PartitionLog:
    """Offsets as acknowledged and as read.

    A reader that is given an offset has been denied those before it: if something is known to be
    there it is lost, or hidden by an abort; if nothing is known there must be a marker.
    """

    def __init__(self, name: Partition, report: Report) -> None:
        self.name = name
        self.markers: set[int] = set()
        self.held: dict[int, Record] = {}
        self.end: int | None = None  # as the broker last said
        self.is_doomed = False
        self._report = report
        self._acknowledged: dict[int, Record] = {}
        self._empty: set[int] = set()  # skipped by readers of everything
        self._hidden: set[int] = set()  # skipped under read_committed
        self._shown_to: dict[bool, int] = {}  # by isolation: the end of the last whole reading

    def acknowledge(self, record: Record, offset: int) -> None:
        """Note that the broker says it holds a record."""
        if record.partition != self.name:
            self._report(Kind.MISPLACED, f"{record.name} acknowledged in {self.name}")
        before = self._acknowledged.setdefault(offset, record)
        if before is not record:
            what = f"{self.name}@{offset} acknowledged for {before.name} and for {record.name}"
            self._report(Kind.REUSED, what)
        if record.acknowledged_at not in {None, offset}:
            what = f"{record.name} acknowledged at {record.acknowledged_at} and at {offset}"
            self._report(Kind.DOUBLED, what)
        record.acknowledged_at = offset
        held = self.held.get(offset)
        if held is not None and held is not record:
            what = (
                f"{self.name}@{offset} acknowledged for {record.name}, {held.name} was read there"
            )
            self._report(Kind.REUSED, what)
        if record.found_at not in {None, offset}:
            what = f"{record.name} acknowledged at {offset}, was read at {record.found_at}"
            self._report(Kind.SWAPPED, what)
        if offset in self._empty:
            what = f"{record.name} acknowledged at {self.name}@{offset}, which was skipped"
            self._report(Kind.LOST, what)

    def bound(self, start: int, end: int) -> None:
        """Compare the bounds with what must lie between them."""
        self.end = end
        if start:
            self._report(Kind.LOST, f"{self.name} begins at {start}")
        for what, known in (("acknowledged", self._acknowledged), ("read", self.held)):
            last = max(known, default=-1)
            if last >= end:
                facts = f"{self.name} ends at {end}, {known[last].name} was {what} at {last}"
                self._report(Kind.LOST, facts)

    def hold(self, record: Record, offset: int) -> None:
        """Note that a record was read at an offset."""
        if record.partition != self.name:
            what = f"{record.name} was sent to {record.partition}, read at {self.name}@{offset}"
            self._report(Kind.MISPLACED, what)
        before = self.held.setdefault(offset, record)
        if before is not record:
            self._report(Kind.REUSED, f"{self.name}@{offset} was {before.name}, is {record.name}")
            self.held[offset] = record
        elif offset in self._empty:
            self._report(Kind.REUSED, f"{self.name}@{offset} was empty, is {record.name}")
            self._empty.discard(offset)
        self._place(record, offset)

    def _place(self, record: Record, offset: int) -> None:
        """Compare an offset with where the record was acknowledged and read before."""
        if record.acknowledged_at not in {None, offset}:
            what = f"{record.name} was acknowledged at {record.acknowledged_at}, is at {offset}"
            self._report(Kind.SWAPPED, f"{self.name}: {what}")
        acknowledged = self._acknowledged.get(offset)
        if acknowledged is not None and acknowledged is not record:
            what = f"{self.name}@{offset} acknowledged for {acknowledged.name}, is {record.name}"
            self._report(Kind.REUSED, what)
        elsewhere = record.found_at
        if elsewhere is None:
            record.found_at = offset
        elif elsewhere != offset and self.held.get(elsewhere) is record:
            self._report(Kind.DOUBLED, f"{self.name}: {record.name} at {elsewhere} and {offset}")

    def skip(self, offsets: Iterable[int], *, committed: bool) -> None:
        """Note that a reader was given nothing at some offsets."""
        for offset in offsets:
            record = self.held.get(offset) or self._acknowledged.get(offset)
            if record is None:
                (self._hidden if committed else self._empty).add(offset)
            elif not committed or record.transaction is None or record.is_visible:
                self._report(Kind.LOST, f"{self.name}@{offset} was {record.name}, shows nothing")

    def show_all(self, end: int, *, committed: bool) -> None:
        """Note that a reader has been given everything from the start of the log to an offset."""
        self._shown_to[committed] = end

    def finish(self, *, transactional: bool) -> None:
        """Judge what only the whole history can tell; both isolations if ``transactional``."""
        if self.is_doomed:
            return
        for committed in (False, True) if transactional else (False,):
            shown = self._shown_to.get(committed, -1)
            if self.end is None or shown < self.end:
                how = "read_committed" if committed else "read_uncommitted"
                what = f"{self.name} ends at {self.end}, last read from its start to {shown}"
                self._report(Kind.UNPROVEN, f"{what} under {how}")
        for offset, record in self._acknowledged.items():
            if offset not in self.held and offset not in self._empty:
                self._report(Kind.LOST, f"{self.name}@{offset} was {record.name}, was never shown")
        for offset in sorted(self._empty | self._hidden):
            if offset not in self.held and offset not in self.markers:
                self._report(Kind.HOLE, f"{self.name}@{offset} shows nothing, and is no marker")
        for offset in sorted(self._hidden & self.held.keys()):
            record = self.held[offset]
            if record.transaction is None:
                self._report(Kind.LOST, f"{self.name}@{offset} hides {record.name} from readers")
