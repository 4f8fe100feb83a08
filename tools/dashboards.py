"""Whether a Grafana dashboard that was made for Kafka finds its metrics on ``/metrics``.

``python -m tools.dashboards DASHBOARD.json…`` prints each query and what it lacks.
``public_dashboards.tsv`` in this folder names the metrics that well-known dashboards ask for;
docs/metrics.md has the result.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.broker.http.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FACTS: Final = Path(__file__).with_name("public_dashboards.tsv")

TARGET_LABELS: Final = frozenset({
    "container", "env", "instance", "job", "kubernetes_pod_name", "namespace",
    "strimzi_io_cluster", "strimzi_io_name",
})  # fmt: skip
"""Labels that the configuration of Prometheus adds to each series of a target."""

_SUFFIXES: Final = {
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("", "_count", "_sum"),
    "counter": ("_total",),
    "gauge": ("",),
    "untyped": ("",),
}
_FOREIGN: Final = re.compile(r"^jvm_|zookeeper|^kafka_tier_|_tiersize$")
_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR: Final = re.compile(
    r"(?<![\w$.{])(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*_[a-zA-Z0-9_:]+)\b(?P<labels>\{[^}]*\})?(?!\s*\()"
)
_LABEL: Final = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)")


class Asked(NamedTuple):
    """A metric that a query asks for, and the labels by which it chooses."""

    name: str
    labels: frozenset[str]


class Found(NamedTuple):
    """How many of the metrics that a public dashboard queries are on ``/metrics``.

    ``foreign`` has the metrics of a JVM, of ZooKeeper or of tiered storage.
    """

    dashboard: str
    there: list[str]
    foreign: list[str]
    missing: list[str]


class Query(NamedTuple):
    """A query of a dashboard, and the metrics in it."""

    text: str
    asked: tuple[Asked, ...]


def read_queries(dashboard: Any) -> Iterator[Query]:
    """Yield each different query of a dashboard's panels."""
    seen = set()
    for text in _expressions(dashboard):
        if text not in seen:
            seen.add(text)
            yield Query(text, tuple(read_asked(text)))


def read_asked(text: str) -> Iterator[Asked]:
    """Yield the metrics that an expression of PromQL names."""
    plain = _GROUPING.sub(" ", _STRINGS.sub('""', text))
    for found in _SELECTOR.finditer(plain):
        yield Asked(found["name"], frozenset(_LABEL.findall(found["labels"] or "")))


def find_missing(asked: Iterable[Asked]) -> list[str]:
    """Return the queried metrics and labels that ``/metrics`` does not have."""
    labels = known()
    missing = []
    for each in asked:
        if each.name not in labels:
            missing.append(each.name)
        elif lacking := each.labels - labels[each.name] - TARGET_LABELS:
            missing.append(f"{each.name}{{{', '.join(sorted(lacking))}}}")
    return missing


def known() -> dict[str, frozenset[str]]:
    """Return the labels of each series by name."""
    found = {}
    for metric in METRICS:
        for suffix in _SUFFIXES[metric.kind]:
            extra = {"_bucket": ("le",), "": ("quantile",) if metric.kind == "summary" else ()}
            found[metric.name + suffix] = frozenset((*metric.labels, *extra.get(suffix, ())))
    return found


def read_facts() -> dict[str, list[Asked]]:
    """Return the metrics that public dashboards query, by dashboard."""
    facts: dict[str, list[Asked]] = {}
    for line in FACTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            dashboard, name, labels = line.split("\t")
            facts.setdefault(dashboard, []).append(
                Asked(name, frozenset(labels.split(",") if labels else ()))
            )
    return facts


def judge_public() -> Iterator[Found]:
    """Yield the public dashboards of ``public_dashboards.tsv``."""
    for dashboard, asked in read_facts().items():
        found = Found(dashboard, [], [], [])
        for each in asked:
            if not find_missing([each]):
                found.there.append(each.name)
            elif _FOREIGN.search(each.name):
                found.foreign.append(each.name)
            else:
                found.missing.append(each.name)
        yield found


def _expressions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr" and isinstance(value, str):
                yield " ".join(value.split())
            else:
                yield from _expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _expressions(value)


def main(paths: Sequence[str]) -> int:
    """Print a table for each dashboard."""
    for path in paths:
        queries = list(read_queries(json.loads(Path(path).read_text(encoding="utf-8"))))
        names = {each.name: each for query in queries for each in query.asked}
        lacking = [query for query in queries if find_missing(query.asked)]
        gone = [name for name in names if name not in known()]
        print(f"{path}: {len(queries) - len(lacking)} of {len(queries)} queries answered, ", end="")
        print(f"{len(names) - len(gone)} of {len(names)} metrics there")
        for query in queries:
            missing = find_missing(query.asked)
            print(f"  {'no ' if missing else 'yes'} {query.text}")
            for each in missing:
                print(f"        lacks {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
