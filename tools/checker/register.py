"""A thing with one value, changed by requests whose answers may be missing.

Commits of a group, a topic's existence and its settings are all of this form: what shows must be
the last acknowledged value or one that was asked for since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.checker.faults import Kind

if TYPE_CHECKING:
    from tools.checker.events import Thing, Value
    from tools.checker.faults import Report


class Entry:
    """A value that a thing was asked to have."""

    __slots__ = ("is_refuted", "is_seen", "is_withdrawn", "number", "thing", "value")

    def __init__(self, thing: Thing, value: Value, number: int) -> None:
        self.thing = thing
        self.value = value
        self.number = number
        self.is_seen = False  # was shown, and nothing else can have been meant
        self.is_refuted = False  # cannot have happened, by what was shown
        self.is_withdrawn = False  # its transaction was aborted

    def __str__(self) -> str:
        return f"{self.thing} = {self.value}"


class Register:
    """Every value of a thing, and those that it may have now.

    `_open` holds, oldest first, the value that is known and what was asked for since.
    """

    def __init__(self, thing: Thing) -> None:
        first = Entry(thing, None, 0)
        self.thing = thing
        self.shown: Value = None
        self.is_current = False  # nothing was asked for since it was shown
        self._entries = [first]
        self._open = [first]
        self._acknowledged = 0  # number of the newest entry that the broker acknowledged
        self._seen = 0  # likewise, that it has shown beyond doubt

    def ask(self, value: Value) -> Entry:
        """Note that a value is asked for."""
        self.is_current = False
        entry = Entry(self.thing, value, len(self._entries))
        self._entries.append(entry)
        self._open.append(entry)
        return entry

    def acknowledge(self, entry: Entry) -> None:
        """Note that a value was taken: none from before it may show."""
        self._acknowledged = max(self._acknowledged, entry.number)
        self._open = [each for each in self._open if each.number >= entry.number] or [entry]

    def acknowledge_last(self, value: Value, report: Report) -> None:
        """Note that the last request for a value was answered."""
        entry = self._find(value)
        if entry is None:
            report(Kind.CHANGE_INVENTED, f"{self.thing}: {value} acknowledged, never asked for")
        else:
            self.acknowledge(entry)

    def withdraw(self, entry: Entry) -> None:
        """Note that a value will never show, as its transaction is aborted."""
        entry.is_withdrawn = True
        self._open = [each for each in self._open if each is not entry]

    def show(self, value: Value, report: Report, *, settled: bool) -> None:
        """Compare what shows with what may; if ``settled``, all else is out of the question."""
        self.shown = value
        self.is_current = True
        fitting = [each for each in self._open if each.value == value]
        if not fitting:
            self._explain(value, report)
            return
        oldest = fitting[0].number
        kept = [each for each in self._open if each in fitting or not settled]
        self._open = [each for each in kept if each.number >= oldest]
        self._seen = max(self._seen, oldest)
        if len(fitting) == 1:
            fitting[0].is_seen = True
        if settled:
            for each in self._entries[fitting[-1].number + 1 :]:
                each.is_refuted = True

    def _find(self, value: Value) -> Entry | None:
        return next((each for each in reversed(self._entries) if each.value == value), None)

    def _explain(self, value: Value, report: Report) -> None:
        """Report why a value must not show."""
        entry = self._find(value)
        if entry is None:
            report(Kind.CHANGE_INVENTED, f"{self.thing}: {value} shows, nobody asked for it")
            return
        if entry.is_withdrawn:
            entry.is_seen = True  # the transaction reports it
            return
        for each in self._entries[entry.number + 1 :]:
            each.is_refuted = True
        acknowledged, seen = self._entries[self._acknowledged], self._entries[self._seen]
        if entry.number < self._acknowledged:
            what = f"{self.thing}: {value} shows, {acknowledged.value} was acknowledged after it"
            report(Kind.CHANGE_LOST, what)
        if entry.number < self._seen:
            what = f"{self.thing}: {value} shows, {seen.value} was shown before"
            report(Kind.CHANGE_UNDONE, what)
        if entry.number >= max(self._acknowledged, self._seen):
            report(Kind.CHANGE_REVIVED, f"{self.thing}: {value} shows, it had not happened before")
