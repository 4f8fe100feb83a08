"""The settings of the cleaner threads (Kafka: ``CleanerConfig``)."""

from dataclasses import dataclass
from typing import Self

from siltstone.config.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The settings as one thread needs them; ``threads`` is 0 if ``log.cleaner.enable`` is false.

    The sizes of map and buffers are one thread's share of the sizes set for all threads. Half of
    the buffers is for reading and half for writing.
    """

    threads: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    bytes_per_second: float
    backoff_seconds: float

    @classmethod
    def of(cls, server: ServerConfig) -> Self:
        """Return the cleaner's settings from those of the broker."""
        threads = server.log_cleaner_threads if server.log_cleaner_enable else 0
        share = max(1, threads)
        return cls(
            threads=threads,
            # Kafka's map is one Java array per thread, of 2 GiB at most.
            dedupe_buffer_bytes=min(server.log_cleaner_dedupe_buffer_size // share, (1 << 31) - 1),
            load_factor=server.log_cleaner_io_buffer_load_factor,
            io_buffer_bytes=server.log_cleaner_io_buffer_size // share // 2,
            bytes_per_second=server.log_cleaner_io_max_bytes_per_second,
            backoff_seconds=server.log_cleaner_backoff_ms / 1000,
        )
