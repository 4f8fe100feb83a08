"""One transaction, and the signs that it was committed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.checker.faults import Kind

if TYPE_CHECKING:
    from tools.checker.faults import Report
    from tools.checker.record import Record
    from tools.checker.register import Entry


class Transaction:
    """All or nothing: records of several partitions and the offsets that go with them.

    Whether one that was asked for and not answered is committed shows in its parts, which must
    agree. A part is hidden if nobody saw it by the end of a history that shows everything.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[Record] = []
        self.changes: list[Entry] = []
        self.is_asked = False
        self.is_committed = False  # the broker said so
        self.is_aborted = False  # likewise

    @property
    def may_show(self) -> bool:
        """Tell whether its records may be read under read_committed."""
        return self.is_asked and not self.is_aborted

    def judge(self, report: Report) -> bool:
        """Report what is torn; return whether the transaction took place."""
        shown = [record for record in self.records if record.is_visible]
        made = [change for change in self.changes if change.is_seen]
        undone = [change for change in self.changes if change.is_refuted]
        if not self.may_show:
            state = "is aborted" if self.is_aborted else "was never to be committed"
            for change in made:
                report(Kind.TORN, f"transaction {self.name} {state}, but its {change} shows")
            return False
        if not self.is_committed and not shown and not made:
            return False
        hidden = [record for record in self.records if not record.is_visible]
        if hidden and not shown and not made:
            report(
                Kind.LOST,
                f"transaction {self.name} is committed and none of its {len(hidden)} records shows",
            )
        elif hidden:
            report(
                Kind.TORN,
                f"transaction {self.name} shows {len(shown)} records and {len(made)} offsets, "
                f"not {hidden[0].name} to {hidden[0].partition}",
            )
        for change in undone:
            report(Kind.TORN, f"transaction {self.name} took place without its {change}")
        return True
