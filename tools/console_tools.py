"""Reads the steps of Kafka's own tools that a test compares, and writes docs/tools.md from them.

``console_tools.txt`` has the steps in the order in which a test does them, with Apache Kafka 4.4.0
and with this broker; it fails if the answers differ in another way than a step says::

    $ kafka-topics --list     a command, without --bootstrap-server
    < a line                  a line of its input
    - a line                  a line that only Apache Kafka prints
    + a line                  a line that only we print
    why words                 why they differ
    apart EXPRESSION          lines that are not compared; the reason says what they are
    common                    lines count whose name, the text before =, both print
    * members come            what clients do between two commands
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEPS: Final = Path(__file__).with_name("console_tools.txt")
PAGE: Final = Path(__file__).parents[1] / "docs" / "tools.md"

_INTRODUCTION: Final = """\
# Kafka's own tools

<!-- Written by `make docs` from tools/console_tools.txt; do not edit. -->

A test runs these commands with Apache Kafka 4.4.0 and with this broker, and compares their output
and exit codes. It fails if they differ in a way that is not on this page. Both have one node and an
authorizer. Values that change from run to run are masked before: ids, times, ports, paths, speeds;
the order of rows may differ. Names in braces are files of the test.

{summary}

| command | answer |
| --- | --- |
"""

_LINES: Final = """
## The lines that differ

`-` is printed with Apache Kafka alone, `+` with this broker alone.
"""

_NOT_PLAYED: Final = """
## What is not played

* `kafka-storage` prepares the folder of an Apache Kafka; this broker needs no such step.
* `kafka-server-start` and `kafka-server-stop` are `siltstone serve` and a signal:
  [operating](operating.md).
* `kafka-console-share-consumer` and the other tools of share groups play with members; other tests
  run them.
* `kafka-metadata-shell`, `kafka-metadata-quorum add-controller` and `remove-controller`: there is
  no metadata log.
* `kafka-mirror-maker`, `connect-*` and `trogdor` are programs that talk to brokers as clients do.

Moves between log directories, hanging transactions and tools that log in are in other tests, for
which there are no two columns.
"""


class Step(NamedTuple):
    """A command, and how our answer differs from Apache Kafka's."""

    tool: str
    words: str
    given: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    why: str = ""
    apart: str = ""
    common: bool = False

    @property
    def command(self) -> str:
        """The command as a user types it."""
        return f"{self.tool} {self.words}".strip()

    @property
    def is_equal(self) -> bool:
        """Whether the whole answer is that of Apache Kafka."""
        return not self.why


class Scene(NamedTuple):
    """Work of clients between two commands."""

    name: str


def read_steps(text: str) -> Iterator[Step | Scene]:
    """Yield the steps of a text.

    Raises:
        ValueError: A line is of no kind, or a difference has no reason.
    """
    for paragraph in text.strip().split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        kind, _, rest = lines[0].partition(" ")
        if kind == "*":
            yield Scene(rest)
        elif kind == "$":
            yield _read_step(rest, lines[1:])
        else:
            raise ValueError(f"{lines[0]!r} is neither a command ($) nor a scene (*)")


def _read_step(command: str, lines: Iterable[str]) -> Step:
    found: dict[str, list[str]] = {kind: [] for kind in ("<", "-", "+", "why", "apart", "common")}
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind not in found:
            raise ValueError(f"{command}: {line!r} begins with none of {' '.join(found)}")
        found[kind].append(rest)
    tool, _, words = command.partition(" ")
    step = Step(
        tool,
        words,
        given=tuple(found["<"]),
        theirs=tuple(found["-"]),
        ours=tuple(found["+"]),
        why=" ".join(found["why"]),
        apart=" ".join(found["apart"]),
        common=bool(found["common"]),
    )
    if step.is_equal and (step.theirs or step.ours or step.apart or step.common):
        raise ValueError(f"{command}: the answers differ, and no line says why")
    return step


def page() -> str:
    """Return the text of docs/tools.md."""
    steps = [each for each in read_steps(STEPS.read_text()) if isinstance(each, Step)]
    equal = sum(step.is_equal for step in steps)
    tools = len({step.tool for step in steps})
    summary = f"Of {len(steps)} commands of {tools} tools, {equal} are answered alike."
    rows = "".join(
        f"| `{step.command}` | {step.why or 'equal'} |\n"
        for step in sorted(steps, key=lambda step: step.tool)
    )
    differing = "".join(_differing(step) for step in steps if step.theirs or step.ours)
    head = _INTRODUCTION.format(summary=summary)
    return f"{head}{rows}{_LINES}\n```diff\n{differing.rstrip()}\n```\n{_NOT_PLAYED}"


def _differing(step: Step) -> str:
    lines = [f"- {line}" for line in step.theirs] + [f"+ {line}" for line in step.ours]
    return "\n".join([f"$ {step.command}", *lines, "", ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
