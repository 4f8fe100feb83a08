"""Writes docs/rights.md from the table of requirements; a test fails when it is stale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.broker.api import APIS
from siltstone.broker.security.acl import ResourceType
from siltstone.broker.security.requirements import REQUIREMENTS, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.security.requirements import Need

PAGE: Final = Path(__file__).parents[1] / "docs" / "rights.md"

_INTRODUCTION: Final = """\
# The right that each request needs

<!-- Written by `make docs` from broker/security/requirements.py; do not edit. -->

They are those of Apache Kafka 4.4.0, and count where `authorizer.class.name` is set
([security](security.md)). Of rights with the same letter one is enough. Where a right is refused
*in the element*, the others of the request are served; *left out* is what the client may not know.
Where a request names a topic by its id, the right to the topic with this id counts, although the
table says `name`; an id that no topic has needs no right to a topic.

| request | operation | resource | named in | for | refused |
| --- | --- | --- | --- | --- | --- |
"""
_REFUSALS: Final = {
    Refusal.WHOLE: "as a whole",
    Refusal.ELEMENT: "in the element",
    Refusal.OMITTED: "left out",
}


def page() -> str:
    """Return the text of docs/rights.md."""
    rows = (row for api in APIS for row in _rows(api.name, REQUIREMENTS[api.key]))
    return _INTRODUCTION + "".join(f"{row}\n" for row in rows)


def _rows(name: str, needs: tuple[Need, ...]) -> Iterator[str]:
    if not needs:
        yield f"| {name} | none | | | | |"
    letters: dict[str, str] = {}
    for need in needs:
        letter = ""
        if need.instead:
            letter = f" ({letters.setdefault(need.instead, chr(ord('a') + len(letters)))})"
        kind = ResourceType(need.resource).name
        refusal = _REFUSALS[need.refusal]
        named = ", ".join(f"`{each}`" for each in need.names)
        told = need.operation.name + letter
        yield f"| {name} | {told} | {kind} | {named} | {need.when} | {refusal} |"
        name = ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
