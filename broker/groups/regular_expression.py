"""Regular expressions of clients, in RE2's syntax: their time grows with the text alone."""

from __future__ import annotations

from typing import Any, Final

from siltstone.protocol.errors import InvalidRegularExpression

_MAX_CHARACTERS: Final = 10_000
_MAX_CLASSES: Final = 30
"""How many Unicode classes an expression may have: RE2 takes half a millisecond to compile one."""


def compile_expression(expression: str) -> Any:
    """Return the compiled expression.

    Raises:
        InvalidRegularExpression: It would take long, or RE2 refuses it; the message says why.
    """
    if len(expression) > _MAX_CHARACTERS:
        raise InvalidRegularExpression(
            f"{len(expression)} characters are too many, {_MAX_CHARACTERS} may be"
        )
    classes = expression.count(r"\p") + expression.count(r"\P")
    if classes > _MAX_CLASSES:
        raise InvalidRegularExpression(
            f"{classes} Unicode classes are too many, {_MAX_CLASSES} may be"
        )
    import re2  # noqa: PLC0415  # a native library that most brokers never need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # with capturing, some expressions take milliseconds a name
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        detail = error.args[0] if error.args else b""
        said = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise InvalidRegularExpression(said) from error
