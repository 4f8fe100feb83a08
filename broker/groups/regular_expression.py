"""Regular expressions of clients, in RE2's syntax: the time grows only with the text's length."""

import re
from typing import Any, Final

from siltstone.protocol.errors import InvalidRegularExpression

_MAX_CHARACTERS: Final = 10_000
_MAX_CLASSES: Final = 20
"""How many Unicode classes an expression may have: RE2 takes 0.4 ms to compile one."""
_MAX_REPETITIONS: Final = 10_000
"""How often the counts of an expression may repeat something, all together: each is a node."""
_MAX_MEMORY: Final = 1 << 20
"""How much RE2 may take for one, compiled: it stops there, some milliseconds after it began."""
_MAX_STEPS: Final = 12_000
"""How many steps the compiled one may have: RE2 may go through all for each character of a name."""
_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_DIGITS: Final = 9
"""How many digits of a count are looked at: there are never so many repetitions."""


def compile_expression(expression: str, max_classes: int = _MAX_CLASSES) -> Any:
    """Return the compiled expression.

    Raises:
        InvalidRegularExpression: The expression would take long, or RE2 refuses it; the message
            says why.
    """
    if len(expression) > _MAX_CHARACTERS:
        raise InvalidRegularExpression(
            f"{len(expression)} characters are too many, {_MAX_CHARACTERS} may be"
        )
    classes = expression.count(r"\p") + expression.count(r"\P")
    if classes > max_classes:
        raise InvalidRegularExpression(
            f"{classes} Unicode classes are too many, {max_classes} may be"
        )
    repeated = sum(int((most or least)[:_DIGITS]) for least, most in _COUNT.findall(expression))
    if repeated > _MAX_REPETITIONS:
        raise InvalidRegularExpression(
            f"{repeated} repetitions are too many, {_MAX_REPETITIONS} may be"
        )
    import re2  # noqa: PLC0415  # a native library that most brokers never need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # with capturing, some expressions take milliseconds a name
    options.max_mem = _MAX_MEMORY
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        detail = error.args[0] if error.args else b""
        said = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise InvalidRegularExpression(said) from error
    finally:
        re2.purge()  # RE2 would keep 128 expressions, with the memory that matching takes
    if compiled.programsize > _MAX_STEPS:
        raise InvalidRegularExpression(
            f"{compiled.programsize} steps are too many, {_MAX_STEPS} may be"
        )
    return compiled
