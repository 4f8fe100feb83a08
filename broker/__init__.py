"""The daemon: listeners, connections, the table of APIs and their handlers, metrics and health."""
