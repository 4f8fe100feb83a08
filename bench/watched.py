"""The waits of small produces while a page is open and a scrape comes each second."""

from __future__ import annotations

import socket
import statistics
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.brokers import START_SECONDS, Ours, port_of
from bench.cases import PARTITIONS, make_topic
from bench.frames import batch_of, produce_frames
from bench.load import Load
from siltstone.testing.admin import Admin
from tests.support.ports import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE: Final = 2000
"""Produces a second, by 8 connections; they are due whether or not the last was answered."""
TOPICS: Final = 100
"""Of ten partitions each, beside the one that is written."""

_ROUNDS: Final = 5
_SECONDS: Final = 4.0
_WARM_SECONDS: Final = 1.0
_PAGE: Final = (2.0, ("/api/overview", "/api/topics?limit=5&sort=size"))
"""How often a browser asks what its first view shows, in seconds, and for what."""
_SCRAPE: Final = (1.0, ("/metrics",))


def p99_times_calm() -> float:
    """Return the p99 of produces beside a page and scrapes, divided by the calm one.

    Calm and watched rounds alternate; the medians of both are compared. The page's requests are
    sent without a browser, which would take the processor that the broker and the load share.
    """
    load = Load()
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as folder:
        broker = Ours(Path(folder), {})
        broker.start(START_SECONDS)
        try:
            with closing(Admin(address_of(broker.bootstrap))) as admin:
                for number in range(TOPICS):
                    admin.create_topic(f"other-{number}", 10, {})
            make_topic(load, broker, "small")
            calm, watched = [], []
            for _ in range(_ROUNDS):
                calm.append(_p99(load, broker))
                with _watching(broker.http, _PAGE), _watching(broker.http, _SCRAPE):
                    watched.append(_p99(load, broker))
        finally:
            broker.close()
    return statistics.median(watched) / statistics.median(calm)


def _p99(load: Load, broker: Ours) -> float:
    """Return what 99 of 100 produces wait less than, in microseconds."""
    batch = batch_of(0, 100, int(time.time() * 1000))
    result = load.run(
        "produce",
        produce_frames("small", range(PARTITIONS), batch, 1),
        port=port_of(broker),
        pid=broker.daemon.pid,
        connections=8,
        rate=RATE,
        warmup=_WARM_SECONDS,
        seconds=_SECONDS,
    )
    return float(result["p99_us"])


@contextmanager
def _watching(address: str, what: tuple[float, tuple[str, ...]]) -> Iterator[None]:
    """Ask for paths again and again, until the block ends."""
    seconds, paths = what
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(seconds):
            for path in paths:
                _get(address, path)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _get(address: str, path: str) -> None:
    """Ask for a path and drop the answer: to read it with care would take the broker's processor.

    Raises:
        RuntimeError: It was refused.
    """
    room = bytearray(1 << 18)
    with socket.create_connection(address_of(address)) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
        )
        count = connection.recv_into(room)
        if b" 200 " not in room[:count].partition(b"\r\n")[0]:
            raise RuntimeError(f"{path}: {room[:count].decode()}")
        while count:
            count = connection.recv_into(room)
