"""The levels of our loggers under Kafka's names, so that its tools can turn a broker's log up."""

from __future__ import annotations

import logging

from siltstone.protocol.errors import InvalidConfig, InvalidRequest

ROOT = "root"

LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """Return the effective level of every logger by its name."""
    names = [name for name in logging.root.manager.loggerDict if name != ROOT]
    return {ROOT: _level(logging.root)} | {
        name: _level(logging.getLogger(name)) for name in sorted(names)
    }


def set_level(name: str, level: str | None, *, validate_only: bool = False) -> None:
    """Give a logger a level, or with None that of the logger above it.

    Raises:
        InvalidConfig: There is no such logger, or no such level.
        InvalidRequest: The root logger would be left without a level.
    """
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise InvalidConfig(f"there is no logger {name}")
    if level is None and name == ROOT:
        raise InvalidRequest("the root logger must have a level; set another one")
    if level is not None and level not in LEVELS:
        raise InvalidConfig(f"{level} is no level of logger {name}; use one of {', '.join(LEVELS)}")
    if not validate_only:
        logger = logging.root if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level(logger: logging.Logger) -> str:
    """Return the name of the highest of Kafka's levels that lets the same messages through."""
    effective = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if level >= effective), "FATAL")
