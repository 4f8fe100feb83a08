"""Lag of groups on the metrics page: right, bounded, and what is left out is counted."""

from siltstone.broker.http.metrics.exposition import Scrapes
from tests.support.metrics import make_sources, with_offsets

LAST = 2**60  # a log of `make_sources` ends here, and so many after it as its number says


def lag_lines(committed: dict[tuple[str, str, int], int], limit: int = 100) -> list[str]:
    """Return what a scrape says of these committed offsets of groups, topics and partitions."""
    sources = with_offsets(make_sources({"orders": 2}), committed, limit)
    text = "".join(line for line in Scrapes(sources).lines() if line)
    return [line for line in text.splitlines() if "consumergroup_" in line and line[0] != "#"]


def test_lag_is_what_is_left_to_the_end_of_the_log() -> None:
    """A group that has read all but three records lags by three, and never by less than nothing."""
    lines = lag_lines({("billing", "orders", 0): LAST - 2, ("billing", "orders", 1): LAST + 9})

    offset, lag = "kafka_consumergroup_current_offset", "kafka_consumergroup_lag"
    labels = 'consumergroup="billing",topic="orders",partition='
    assert lines == [
        f'{offset}{{{labels}"0"}} {LAST - 2}',
        f'{offset}{{{labels}"1"}} {LAST + 9}',
        f'{lag}{{{labels}"0"}} 3',
        f'{lag}{{{labels}"1"}} 0',
        "siltstone_consumergroup_series_omitted 0",
    ]


def test_a_partition_that_is_gone_has_an_offset_and_no_lag() -> None:
    """The committed offset is shown; nothing is left to read."""
    lines = lag_lines({("billing", "gone", 7): 5})

    assert lines[0].endswith('topic="gone",partition="7"} 5')
    assert len(lines) == 2


def test_a_name_cannot_break_the_text() -> None:
    """A group id may have any character."""
    lines = lag_lines({('a"b\\c\nd', "orders", 0): LAST})

    assert 'consumergroup="a\\"b\\\\c\\nd"' in lines[0]


def test_series_are_bounded_and_the_rest_is_counted() -> None:
    """Of 50 committed offsets ten are told, and 40 are omitted."""
    lines = lag_lines({(f"group-{n}", "orders", n % 2): LAST for n in range(50)}, limit=10)

    assert len(lines) == 10 + 10 + 1
    assert lines[-1] == "siltstone_consumergroup_series_omitted 40"


def test_a_limit_of_0_tells_none() -> None:
    """A user that has lag from elsewhere can switch it off."""
    assert lag_lines({("billing", "orders", 0): 1}, limit=0) == [
        "siltstone_consumergroup_series_omitted 1"
    ]
