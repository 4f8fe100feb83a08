"""Partition folders as Apache Kafka lays them out: synchronous, thread-safe, no asyncio."""
