"""One module per family of APIs, found through the table in ``broker.api``.

What a handler may use of the broker is in `broker.services`.
"""
