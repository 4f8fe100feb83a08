"""How log lines look: for a person at a console, or one JSON object a line for a collector."""

from __future__ import annotations

import json
import logging
import sys
import time

from siltstone.protocol.errors import MAX_MESSAGE_CHARACTERS, shorten

_CONSOLE = "%(asctime)s %(levelname)s %(name)s %(message)s"


class Shortened(logging.Filter):
    """Shortens what quotes a client at length; tracebacks stay whole."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with a message of bounded size."""
        message = record.getMessage()
        if len(message) > MAX_MESSAGE_CHARACTERS:
            record.msg, record.args = shorten(message), None
        return True


class JsonLines(logging.Formatter):
    """One object a line: time (RFC 3339, UTC), level, logger, message, and a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record`` as one line of JSON."""
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(style: str, level: str) -> None:
    """Send every line to stderr in ``style``, ``console`` or ``json``, from ``level`` up."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonLines() if style == "json" else logging.Formatter(_CONSOLE)
    formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = "%s.%03dZ"
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(Shortened())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
