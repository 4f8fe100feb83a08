"""Regular expressions of clients, in RE2's syntax: their time grows with the text alone."""

from __future__ import annotations

from typing import Any

from protocol.errors import InvalidRegularExpression


def compile_expression(expression: str) -> Any:
    """Return the compiled expression.

    Raises:
        InvalidRegularExpression: RE2 does not take it; the message is RE2's reason.
    """
    import re2  # noqa: PLC0415  # a native library that most brokers never need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # with groups to tell, some expressions take milliseconds a name
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        detail = error.args[0] if error.args else b""
        said = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise InvalidRegularExpression(said) from error
