"""One module per family of APIs, found through the table in ``broker.api``.

Beside them stands what several of them need: `rooms` has the parts of the broker that a handler may
use.
"""
