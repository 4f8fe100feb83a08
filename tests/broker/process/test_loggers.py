"""Log levels under Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from siltstone.broker.process import logs
from siltstone.protocol.errors import InvalidConfig, InvalidRequest

NAME = "tests.a_logger"


@pytest.fixture(autouse=True)
def _logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("level", logs.LEVELS)
def test_a_level_that_is_set_is_described(level: str) -> None:
    """Every level of Kafka's reads back as it was written."""
    logs.set_level(NAME, level)

    assert logs.levels()[NAME] == level


def test_a_level_that_is_taken_away_is_that_above() -> None:
    """DELETE gives a logger back to its parent."""
    logs.set_level(NAME, "TRACE")
    logs.set_level(NAME, None)

    assert logs.levels()[NAME] == logs.levels()[logs.ROOT]


@pytest.mark.parametrize(
    ("name", "level", "error"),
    [
        ("no.such.logger", "INFO", InvalidConfig),
        (NAME, "debug", InvalidConfig),
        (logs.ROOT, None, InvalidRequest),
    ],
)
def test_what_cannot_be_is_refused(name: str, level: str | None, error: type[Exception]) -> None:
    """Unknown loggers are not made by asking for them."""
    with pytest.raises(error):
        logs.set_level(name, level)

    assert "no.such.logger" not in logs.levels()


def test_only_checking_changes_nothing() -> None:
    """validate_only."""
    before = logs.levels()[NAME]
    logs.set_level(NAME, "FATAL", validate_only=True)

    assert logs.levels()[NAME] == before
