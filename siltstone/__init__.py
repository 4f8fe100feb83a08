"""Siltstone, a Kafka broker in one Python process; all imports begin with this package's name.

The folders beside this file are links to the folders at the root of the repository. An installed
package has the folders themselves. A compiled module is beside its source and has the same name.
"""

VERSION = "0.1.0"
"""A constant: asking the installed package takes a twelfth of the time to the first ack."""


def why_not_compiled(error: ImportError) -> ImportError:
    """Return the error that says what to do where nothing is compiled; raise any other.

    The module that is missed first may be any; the core knows the sentence.
    """
    try:
        from siltstone.protocol import core  # noqa: F401, PLC0415  # only where an import failed
    except ImportError as told:
        if told.name == __name__:
            return told
    raise error
