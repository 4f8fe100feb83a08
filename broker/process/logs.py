"""The format of log lines, for a person or as JSON, and the levels of loggers by Kafka's names."""

import json
import logging
import math
import re
import sys
import time
from functools import lru_cache
from types import TracebackType
from typing import Any

from siltstone.protocol import errors
from siltstone.storage import threads

_logger = logging.getLogger(__name__)

_CONVERSION = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_FIELD = re.compile(r"(\w+)=(.*?)([:;,]?)", re.DOTALL)
_INDENT = " " * 4


def moment_text(milliseconds: int) -> str:
    """Return a time since the epoch as text by RFC 3339, in UTC."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second_text(seconds)}.{rest:03}Z"


@lru_cache(maxsize=4)  # many lines have the same second
def _second_text(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class Shortened(logging.Filter):
    """Shortens messages that quote long text of a client; tracebacks stay whole."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, but cut its message to a bounded size."""
        message = record.getMessage()
        if len(message) > errors.MAX_MESSAGE_CHARACTERS:
            record.msg, record.args = errors.shorten(message), None
        return True


class ConsoleLines(logging.Formatter):
    """A line of text: time (RFC 3339, UTC), level, logger, message.

    The line is not indented, a traceback below it is. Text from a client never begins a line, and
    its control characters are spelled out, so that no terminal obeys them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record`` as a line, and its traceback as lines that are indented."""
        moment = moment_text(int(record.created * 1000))
        lines = [errors.visible(f"{moment} {record.levelname} {record.name} {record.getMessage()}")]
        if record.exc_info:
            lines += _indented(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _indented(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [_INDENT + errors.visible(line) for line in text.split("\n")]


class JsonLines(logging.Formatter):
    """One object a line: time (RFC 3339, UTC), level, logger, message, fields, traceback if any.

    The parts that a console line has as ``key=value`` are in ``fields`` by key, with numbers as
    numbers; the message is the rest.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record`` as one line of JSON."""
        message, fields = split_fields(record)
        line: dict[str, Any] = {
            "time": moment_text(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        if fields:
            line["fields"] = fields
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def split_fields(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """Return what a record says in words, and its fields.

    The template decides, so no text from a client can look like a field. A field is ``key=``
    followed by a conversion in the same word, or by constant words up to the next field.
    """
    template, values = record.msg, record.args
    if not isinstance(template, str) or not isinstance(values, tuple) or not values:
        return record.getMessage(), {}
    left = list(values)
    words: list[str] = []
    fields: dict[str, Any] = {}
    for part in _split(template):
        count = sum(each != "%%" for each in _CONVERSION.findall(part))
        arguments, left = left[:count], left[count:]
        if len(arguments) < count:
            return record.getMessage(), {}
        field = _FIELD.fullmatch(part.strip())
        if field is None:
            words.append(part % tuple(arguments))
            continue
        name, value, mark = field.groups()
        fields[name] = _value(value, arguments)
        if mark and words:
            words[-1] = words[-1].rstrip() + f"{mark} "
    return "".join(words).strip(), fields


def _split(template: str) -> list[str]:
    """Return a template in pieces: each field with its value, and the words between them."""
    parts: list[str] = []
    is_open = False  # the last piece is a field of constant words
    for word in re.findall(r"\S+\s*|\s+", template):
        start = _FIELD.fullmatch(word.strip())
        if start is not None and (not is_open or "%" in word):
            parts.append(word)
            is_open = "%" not in word
        elif is_open:
            parts[-1] += word
        else:
            parts.append(word)
    return parts


def _value(text: str, arguments: list[Any]) -> Any:
    """Return the value of a field: a number if the text is one, else the text without quotes."""
    if len(arguments) == 1 and _CONVERSION.fullmatch(text):
        (argument,) = arguments
        if isinstance(argument, float):
            return float(text % argument) if math.isfinite(argument) else str(argument)
        return argument if argument is None or isinstance(argument, int) else str(argument)
    return text % tuple(arguments)


def configure(style: str, level: str) -> None:
    """Send every line to stderr in ``style``, ``console`` or ``json``, from ``level`` up.

    An exception that ends a thread or the program becomes a line as well, unlike Python's own
    tracebacks. The logging module no longer looks up what no line shows: thread, process and
    caller.
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001  # as logging's documentation says
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else ConsoleLines())
    handler.addFilter(Shortened())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    threads.on_failure(_tell_of_thread)
    sys.excepthook = _tell_of_end
    sys.unraisablehook = _tell_of_unraisable


def _tell_of_thread(failed: threads.Failed) -> None:
    name = "" if failed.thread is None else failed.thread.name
    error = failed.exc_value or failed.exc_type()
    if not isinstance(error, SystemExit):
        _logger.critical("thread failed thread=%s", name, exc_info=error)


def _tell_of_end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        _logger.critical("the program failed", exc_info=error)


def _tell_of_unraisable(failed: "sys.UnraisableHookArgs") -> None:
    error = failed.exc_value or failed.exc_type()
    where = getattr(failed.object, "__qualname__", type(failed.object).__qualname__)
    _logger.error("%s where=%s", failed.err_msg or "nobody handles this", where, exc_info=error)


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
    """Set the level of a logger; None means the level of its parent.

    Raises:
        InvalidConfig: There is no such logger, or no such level.
        InvalidRequest: The root logger would be left without a level.
    """
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise errors.InvalidConfig(f"there is no logger {name}")
    if level is None and name == ROOT:
        raise errors.InvalidRequest("the root logger must have a level; set another one")
    if level is not None and level not in LEVELS:
        raise errors.InvalidConfig(
            f"{level} is no level of logger {name}; use one of {', '.join(LEVELS)}"
        )
    if not validate_only:
        logger = logging.root if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level(logger: logging.Logger) -> str:
    """Return the highest of Kafka's levels that passes the same messages."""
    effective = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if level >= effective), "FATAL")
