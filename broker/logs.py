"""How log lines look: for a person at a console, or one JSON object a line for a collector."""

from __future__ import annotations

import json
import logging
import sys
import time

_CONSOLE = "%(asctime)s %(levelname)s %(name)s %(message)s"


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
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
