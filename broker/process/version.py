"""Which Siltstone this is.

A constant, because asking the installed package takes a twelfth of the time to the first ack; a
test holds it against ``pyproject.toml``.
"""

VERSION = "0.1.0"
