"""Writes docs/compatibility.md from the API table; a test fails when it is stale.

The differences from Kafka are copied from each handler's docstring, from the paragraph that begins
with "Differs from Kafka:".
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from siltstone.broker.api import APIS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.api import Api

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"

_DIFFERS = "Differs from Kafka:"

_INTRODUCTION = """\
# Compatibility

<!-- Written by `make docs` from broker/api.py and the heads of the handlers; do not edit. -->

The requests that this broker serves, in the versions that Apache Kafka 4.4.0 serves. ApiVersions
names exactly these, so a client that asks first never sends another one. A client that sends
another one is disconnected, with a line in the log, as Kafka does; a newer ApiVersions is answered
in version 0, so that its client can ask again.

| key | request | versions |
| ---: | --- | --- |
"""

_PRODUCE = """
Produce is named from version {0} on although {1} is the first that is served, as Kafka does: older
librdkafka takes a broker without version 0 for one that has no compression.
"""

_DIFFERENCES = """
## Where the answers differ from Kafka's

On purpose, each for its own reason; everything else that a client could tell apart is a mistake.
The message of an error is in this broker's own words, and an error to which Kafka adds no message
may have one here. Where Kafka meets a request with UNKNOWN_SERVER_ERROR, or does not answer at all,
the answer names the fault. Rows
that Kafka takes out of a hash map stand in the order of the request, or of their names; a topic
that is named without partitions is in the answer, and in some a partition as often as it was named.
What Kafka's own tools print stands [beside what they print there](tools.md). A connection above
`max.connections`, which is of all listeners, is closed with a line in the log; Kafka accepts it and
lets it wait, as both do with the limit of one listener.
"""


def page() -> str:
    """Return the text of docs/compatibility.md."""
    rows = "".join(f"| {api.key} | {api.name} | {_versions(api.versions)} |\n" for api in APIS)
    notes = "".join(
        _PRODUCE.format(api.advertised_from, api.versions[0])
        for api in APIS
        if api.advertised_from is not None
    )
    differences = "\n".join(_differences())
    return f"{_INTRODUCTION}{rows}{notes}{_DIFFERENCES}\n{differences}\n"


def _versions(versions: range) -> str:
    first, last = versions[0], versions[-1]
    return str(first) if first == last else f"{first}-{last}"


def _differences() -> Iterator[str]:
    """Yield a line for each handler module that differs, named by the requests that it serves."""
    modules: dict[str, list[Api]] = {}
    for api in APIS:
        modules.setdefault(api.handler.partition(".")[0], []).append(api)
    for module, apis in modules.items():
        text = import_module(f"siltstone.broker.handlers.{module}").__doc__ or ""
        for paragraph in text.split("\n\n"):
            if paragraph.startswith(_DIFFERS):
                words = " ".join(paragraph.removeprefix(_DIFFERS).split())
                names = ", ".join(api.name for api in apis)
                yield f"* **{names}**: {words[0].upper()}{words[1:]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
