"""One module per family of APIs, found through the table in ``broker.api``."""
