"""Reads closed segments in the background and checks their batches (log.scrub.bytes.per.second).

One thread of low priority reads; the core computes checksums without the GIL. Damage is reported by
the log, as if a fetch had met it, and nothing is changed. Off by default. Kafka has no scrub.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core.constants import HEADER_SIZE, MAGIC, MIN_LENGTH
from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files, threads
from siltstone.storage.clock import Clock, give_way
from siltstone.storage.directory.log_directory import remedy_for
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.segment.damage import LOG_REMEDY
from siltstone.storage.segment.readable import find_index
from siltstone.storage.segment.scan import scan_log
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition

ROUND_SECONDS: Final = 3600.0
"""The shortest time between the beginnings of two rounds: a small log is not read all the time."""
MAX_TOLD: Final = 100
"""How many damaged partitions remarks and metrics name."""
_NICE: Final = 19
_BREATH: Final = 16  # after so many logs it pauses for the event loop
_NO_INDEX: Final = 1 << 62  # bytes between two index entries: the scrub needs no entries
_STOP_SECONDS: Final = 5.0
_SCARCE_SECONDS: Final = 1.0  # the pause until a segment is tried again

_logger = logging.getLogger(__name__)


class _Unwanted(Exception):  # noqa: N818  # no error
    """A read is not wanted any more: the segment left its log, or the scrub is off."""


class _Found(NamedTuple):
    log: Log
    segment: LogSegment
    sentence: str


class Scrub:
    """The thread ``scrub``, which begins when the setting first has a rate, and its findings.

    The event loop calls `start`, and any thread reads the findings. They are in memory only, and
    each is dropped with its segment.
    """

    def __init__(self, logs: LogManager, settings: BrokerSettings, clock: Clock) -> None:
        self.throttle = Throttle(clock, wait=self._wait)
        self.last_round_ms = 0  # when the last whole round ended
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self._found: dict[LogSegment, _Found] = {}  # written by the thread
        self._is_on = False
        self._is_closing = False
        self._wake = threads.Event()
        self._thread: threads.Thread | None = None

    async def start(self) -> None:
        """Read at the rate of the settings from now on; called when every log is open."""
        self._settings.on_change(self._obey)
        await self._obey()

    async def _obey(self) -> None:
        rate = self._settings.server.log_scrub_bytes_per_second
        if rate and rate != self.throttle.rate:
            self.throttle.set_rate(rate)
        if self._is_closing or bool(rate) is self._is_on:
            return
        self._is_on = bool(rate)
        self._wake.set()
        if self._thread is None:
            self._thread = threads.new_thread("scrub", self._run)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, which notices it within a read. Blocks."""
        self._is_closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def find_damage(self) -> dict[TopicPartition, list[str]]:
        """Return a sentence for each damaged segment that its log still has, by partition."""
        damage: dict[TopicPartition, list[str]] = {}
        for log, segment, sentence in tuple(self._found.values()):
            if _has(log, segment):
                damage.setdefault(log.topic_partition, []).append(sentence)
        return damage

    def remarks(self) -> list[str]:
        """Return what an operator should know, for at most a hundred partitions."""
        damage = self.find_damage()
        told = [sentences[0] for _, sentences in sorted(damage.items())[:MAX_TOLD]]
        if len(damage) > MAX_TOLD:
            told.append(f"and {len(damage) - MAX_TOLD} more partitions are damaged")
        return told

    def run_round(self) -> None:
        """Read all closed segments once. Blocks.

        Raises:
            _Unwanted: The scrub was switched off.
        """
        for number, log in enumerate(self._logs.all_logs()):
            if not number % _BREATH:
                give_way()
            segments = () if log.directory.failure is not None else log.segments[:-1]
            for segment in segments:
                self._check_wanted()
                try:
                    while not self._read(log, segment):
                        self._wait(_SCARCE_SECONDS)
                except _Unwanted:
                    self._check_wanted()
        gone = [segment for segment, each in self._found.items() if not _has(each.log, segment)]
        for segment in gone:
            del self._found[segment]
        self.last_round_ms = self._clock.now_ms()

    def _run(self) -> None:
        threads.be_nice(_NICE)
        while not self._is_closing:
            try:
                self._check_wanted()
                due = self._clock.monotonic() + ROUND_SECONDS
                self.run_round()
                while (left := due - self._clock.monotonic()) > 0:
                    self._wait(left)
                    self._check_wanted()
            except _Unwanted:
                if not self._is_closing:
                    self._wait()
            except Exception:
                _logger.exception("scrub failed and begins again in an hour")
                self._wait(ROUND_SECONDS)

    def _wait(self, seconds: float | None = None) -> None:
        if self._wake.wait(seconds):
            self._wake.clear()

    def _check_wanted(self) -> None:
        if self._is_closing or not self._is_on:
            raise _Unwanted

    def _read(self, log: Log, segment: LogSegment) -> bool:
        """Read a segment and note its damage; return false if descriptors or memory are short."""

        def check() -> None:
            self._check_wanted()
            if not _has(log, segment):
                raise _Unwanted

        def pause(count: int) -> None:
            check()
            self.throttle.add(count, check)

        try:
            damage = _find_damage(log, segment, pause)
        except OSError as error:
            check()
            if remedy_for(error) is not None:
                return False
            sentence = log.unreadable(error).message
        else:
            if damage is None:
                self._found.pop(segment, None)
                return True
            check()
            sentence = log.damaged(CorruptMessage(f"{damage}; {LOG_REMEDY}")).message
        self._found[segment] = _Found(log, segment, sentence)
        return True


def _find_damage(log: Log, segment: LogSegment, pause: Callable[[int], None]) -> str | None:
    """Read a segment; return where it is damaged and which offsets that concerns, or None."""
    file = segment.files.open_apart(files.LOG)
    try:
        fd = file.fileno()
        size = segment.size

        def may_end(end: int) -> bool:
            return end == size or _begins_batch(fd, end)

        base_offset = segment.base_offset
        scan = scan_log(fd, size, base_offset, _NO_INDEX, pause=pause, may_end=may_end)
        if scan.damage is None:
            return None
        last = _find_last(log, segment, fd, scan.end, scan.next_offset)
        return f"{segment.log_path}: {scan.damage}, offsets {scan.next_offset} to {last}"
    finally:
        del file  # closed at once, whatever keeps this frame


def _begins_batch(fd: int, position: int) -> bool:
    """Tell whether a batch at a position may have its length, before so many bytes are read.

    One flipped bit can make a length of a gigabyte, which would have to be in memory at once.
    """
    head = files.read_at(fd, HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return False
    header = BatchHeader.read(head)
    return header.magic == MAGIC and header.length >= MIN_LENGTH


def _find_last(log: Log, segment: LogSegment, fd: int, position: int, first: int) -> int:
    """Return the last offset of the batch at a position; without a header, of the segment."""
    head = files.read_at(fd, HEADER_SIZE, position)
    if len(head) == HEADER_SIZE:
        header = BatchHeader.read(head)
        end = position + header.size
        if header.magic == MAGIC and header.length >= MIN_LENGTH and end <= segment.size:
            return max(first, header.last_offset)
    segments = log.segments
    following = segments[min(find_index(segments, segment.base_offset) + 1, len(segments) - 1)]
    return max(first, following.base_offset - 1)


def _has(log: Log, segment: LogSegment) -> bool:
    """Tell whether a log still has a segment."""
    segments = log.segments
    return not log.is_closed and segments[find_index(segments, segment.base_offset)] is segment
