"""What clients pushed of themselves, as series: a family for each of their metrics.

Their names are made as those of Kafka's: dots become underscores, behind ``siltstone_client``. A
client may name what it likes, so names, labels and the number of series are bounded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from siltstone.broker.http.metrics.scans import AT_A_TIME, PAUSE, escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.broker.net.telemetry import Instance, Telemetry
    from siltstone.protocol.otlp import Labels, Point

PREFIX: Final = "siltstone_client_"
HELP: Final = "What clients pushed of themselves."
_KAFKA: Final = "org.apache.kafka."
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_MAY_BE_A_LABEL: Final = re.compile(r"_?[a-zA-Z]")
_MAX_NAME: Final = 150
_MAX_VALUE: Final = 150


class ClientScan:
    """The series of clients, by the names of their families; what is too many is counted."""

    __slots__ = ("clients", "families", "omitted")

    def __init__(self) -> None:
        self.families: dict[str, dict[Labels, float]] = {}
        self.omitted = 0
        self.clients = 0

    def look(self, telemetry: Telemetry, limit: int) -> Iterator[None]:
        """Walk over what clients pushed last, and pause on the way."""
        told = steps = 0
        for instance in telemetry.alive():
            self.clients += 1
            self.omitted += instance.omitted
            for point in instance.points:
                steps += 1
                if not steps % AT_A_TIME:
                    yield PAUSE
                if told >= limit:
                    self.omitted += 1
                else:
                    told += self._add(instance, point)

    def _add(self, instance: Instance, point: Point) -> bool:
        """Add a series; one that is there already, by the same name and labels, is no new one."""
        family = self.families.setdefault(_family(point.name), {})
        labels = {_label(name): value[:_MAX_VALUE] for name, value in point.labels}
        labels["client_id"] = instance.client.client_id[:_MAX_VALUE]
        labels["client_instance_id"] = instance.client.instance_id
        count = len(family)
        family[tuple(sorted(labels.items()))] = point.value
        return len(family) > count


def client_lines(scan: ClientScan) -> Iterator[str | None]:
    """Yield the text of all families, some lines at a time."""
    written = 0
    for name, series in sorted(scan.families.items()):
        yield f"# HELP {name} {HELP}\n# TYPE {name} untyped\n"
        for labels, value in series.items():
            inside = ",".join(f'{label}="{escape(text)}"' for label, text in labels)
            yield f"{name}{{{inside}}} {_number(value)}\n"
            written += 1
            if not written % AT_A_TIME:
                yield PAUSE


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - only NaN is not itself
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "+Inf" if value > 0 else "-Inf"
    return str(value)


def _family(name: str) -> str:
    return PREFIX + _NOT_A_NAME.sub("_", name.removeprefix(_KAFKA)[:_MAX_NAME])


def _label(name: str) -> str:
    plain = _NOT_A_NAME.sub("_", name[:_MAX_NAME])
    return plain if _MAY_BE_A_LABEL.match(plain) else f"label_{plain}"
