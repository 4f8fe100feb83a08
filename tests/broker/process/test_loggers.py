"""Log levels under Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from siltstone.broker.process import loggers
from siltstone.protocol.errors import InvalidConfig, InvalidRequest

NAME = "tests.a_logger"


@pytest.fixture(autouse=True)
def _logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("level", loggers.LEVELS)
def test_a_level_that_is_set_is_described(level: str) -> None:
    """Every level of Kafka's reads back as it was written."""
    loggers.set_level(NAME, level)

    assert loggers.levels()[NAME] == level


def test_a_level_that_is_taken_away_is_that_above() -> None:
    """DELETE gives a logger back to its parent."""
    loggers.set_level(NAME, "TRACE")
    loggers.set_level(NAME, None)

    assert loggers.levels()[NAME] == loggers.levels()[loggers.ROOT]


@pytest.mark.parametrize(
    ("name", "level", "error"),
    [
        ("no.such.logger", "INFO", InvalidConfig),
        (NAME, "debug", InvalidConfig),
        (loggers.ROOT, None, InvalidRequest),
    ],
)
def test_what_cannot_be_is_refused(name: str, level: str | None, error: type[Exception]) -> None:
    """Unknown loggers are not made by asking for them."""
    with pytest.raises(error):
        loggers.set_level(name, level)

    assert "no.such.logger" not in loggers.levels()


def test_only_checking_changes_nothing() -> None:
    """validate_only."""
    before = loggers.levels()[NAME]
    loggers.set_level(NAME, "FATAL", validate_only=True)

    assert loggers.levels()[NAME] == before
