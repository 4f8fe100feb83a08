"""docs/metrics.md is what the table says."""

from pathlib import Path

from siltstone.broker.http.metrics.table import METRICS
from tools.metrics_page import render

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_page_is_not_stale() -> None:
    """`make docs` was run after the last change of a metric."""
    assert PAGE.read_text(encoding="utf-8") == render(), "run make docs"


def test_names_are_unique() -> None:
    """No metric stands in the table twice."""
    names = [metric.series for metric in METRICS]

    assert len(names) == len(set(names))
