"""Kafka's wire format: bytes in, values out. No sockets, files, clocks, threads or logging."""
