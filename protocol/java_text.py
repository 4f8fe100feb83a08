"""Bytes that are not UTF-8, as Java reads them: `AS_JAVA` is an error handler of ``bytes.decode``.

``new String(bytes, UTF_8)`` never fails: each malformed sequence is one U+FFFD. Python's "replace"
counts them alike but for half of a surrogate pair, which is one sequence there and three here.
"""

import codecs
from typing import Final

AS_JAVA: Final = "siltstone.java"


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of the malformed sequence, and where that ends."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    end = error.end
    sequence = error.object[error.start : error.start + 3]
    if sequence[0] == 0xED and len(sequence) > 1 and 0xA0 <= sequence[1] <= 0xBF:
        end = error.start + 2
        if len(sequence) > 2 and 0x80 <= sequence[2] <= 0xBF:
            end += 1
    return "\ufffd", end


codecs.register_error(AS_JAVA, _replace)
