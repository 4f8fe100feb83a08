"""Log directories with partitions of every kind, and damage done to one of them from a seed.

A seed and a number decide a folder: `spoil(root, seed, number)`. In every second folder the
checksums are corrected after the damage, so that readers must find the wrong numbers.
"""

import random
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from siltstone.protocol.records.build import ABORT, COMMIT, build_marker
from siltstone.storage import files
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.producers.checks import Origin
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.clock import FakeClock
from tests.support.logs import TOPIC_ID, validated

PLAIN: Final = TopicConfig(segment_bytes=1500, index_interval_bytes=200)
COMPACT: Final = TopicConfig(
    segment_bytes=1500, index_interval_bytes=200, cleanup_policy=("compact",), delete_retention_ms=0
)
CONFIGS: Final = {"plain": PLAIN, "compact": COMPACT, "mixed": COMPACT}
PARTITIONS: Final = tuple(TopicPartition(topic, index) for topic in CONFIGS for index in (0, 1))
CHECKPOINTS: Final = (
    files.RECOVERY_POINTS,
    files.LOG_START_OFFSETS,
    files.HIGH_WATERMARKS,
    files.CLEANER_OFFSETS,
)

_FIELDS: Final = {8: 4, 12: 4, 16: 1, 21: 2, 23: 4, 27: 8, 35: 8, 43: 8, 51: 2, 53: 4, 57: 4}
"""Where the numbers of a batch's header stand, and their bytes; the base offset is at 0."""
_TAILS: Final = (b"\0" * 70, b"\xff" * 70, bytes(range(70)))
_INDEX_FILES: Final = (files.INDEX, files.TIME_INDEX, files.TRANSACTION_INDEX, files.SNAPSHOT)


class Damage(NamedTuple):
    """A damage: to a partition, or to the directory if the partition is None."""

    victim: TopicPartition | None
    what: str
    is_clean: bool


def new_manager(root: Path, clock: FakeClock | None = None) -> LogManager:
    """Return the manager of a directory; nothing runs in the background."""
    manager = LogManager([root], ServerConfig(), CONFIGS.__getitem__, clock or FakeClock())
    manager.background.start = lambda: None  # type: ignore[method-assign]
    return manager


def make_home(root: Path, *, is_clean: bool) -> None:
    """Fill a directory with partitions of several segments, and stop or leave it as a kill does."""
    manager = new_manager(root)
    manager.load()
    for number, topic_partition in enumerate(PARTITIONS):
        log = manager.create(topic_partition, TOPIC_ID, CONFIGS[topic_partition.topic])
        _fill(log, random.Random(number))
        if log.config.is_deleted:
            log.delete_records(log.log_end_offset // 4)
    for topic_partition in PARTITIONS:
        (root / str(topic_partition) / files.LEADER_EPOCHS).touch()
    manager.checkpoint(files.RECOVERY_POINTS)
    manager.checkpoint(files.LOG_START_OFFSETS)
    manager.checkpoint(files.HIGH_WATERMARKS)
    manager.background.close()
    for name in CHECKPOINTS:
        (root / name).touch()
    manager.close(clean=is_clean)


def _fill(log: Log, chance: random.Random) -> None:
    """Write plain and compressed batches, an idempotent producer's and transactions."""
    sequences = {7: 0, 8: 0}
    for number in range(40):
        rows: list[Row] = [
            (b"key-%d" % chance.randrange(9), chance.choice([None, b"v" * chance.randrange(60)]))
            for _ in range(chance.randrange(1, 5))
        ]
        fields: dict[str, int] = {"codec": chance.choice([0, 0, 0, 1, 2, 3, 4])}
        producer_id = chance.choice([-1, 7, 8])
        if producer_id >= 0:
            fields |= {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": sequences[producer_id],
            }
            sequences[producer_id] += len(rows)
        if producer_id == 8:  # the producer that has transactions
            fields["flags"] = TRANSACTIONAL
        batch = make_batch(rows, timestamp=TIMESTAMP + number, **fields)
        log.append(validated(batch), Origin.REPLICATION)
        if producer_id == 8:  # the producer with transactions
            kind = chance.choice([ABORT, COMMIT])
            marker = build_marker(0, TIMESTAMP, kind, 0, producer_id=8, producer_epoch=0)
            log.append(validated(marker), Origin.COORDINATOR)


def spoil(root: Path, seed: int, number: int, *, is_clean: bool) -> Damage:
    """Do the damage of this number to a copy of a directory, and return its description."""
    chance = random.Random(f"{seed}-{number}")
    repairs = number % 2 == 0
    if chance.random() < 1 / 8:
        name = chance.choice(CHECKPOINTS)
        _spoil_text(root / name, chance)
        return Damage(None, name, is_clean)
    victim = chance.choice(PARTITIONS)
    folder = root / str(victim)
    done = []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        ways: list[Callable[[], str]] = [partial(_spoil_log, folder, chance)] * 5
        ways += [partial(_spoil_file, folder, chance)] * 3
        ways += [partial(_spoil_small, folder, chance), partial(_spoil_names, folder, chance)]
        done.append(chance.choice(ways)())
    if repairs:
        mend_checksums(folder)
    return Damage(victim, ", ".join(done) + (", checksums mended" if repairs else ""), is_clean)


def mend_checksums(folder: Path) -> None:
    """Give every whole batch and every snapshot the right checksum."""
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        data = bytearray(path.read_bytes())
        if files.LOG in path.name:
            _mend_batches(data)
        elif path.suffix == files.SNAPSHOT and len(data) > 6:  # its head
            data[2:6] = crc32c(memoryview(data)[6:]).to_bytes(4, "big")
        path.write_bytes(data)


def _mend_batches(data: bytearray) -> None:
    for position, size in _batches(data):
        covered = memoryview(data)[position + ATTRIBUTES_POSITION : position + size]
        struct.pack_into(">I", data, position + CRC_POSITION, crc32c(covered))
        covered.release()


def _batches(data: bytearray) -> list[tuple[int, int]]:
    """Return position and size of each batch, up to an impossible size."""
    found, position = [], 0
    while position + HEADER_SIZE <= len(data):
        size = struct.unpack_from(">i", data, position + LENGTH_POSITION)[0] + LOG_OVERHEAD
        if not HEADER_SIZE <= size <= len(data) - position:
            break
        found.append((position, size))
        position += size
    return found


def _spoil_log(folder: Path, chance: random.Random) -> str:
    """Change a number in the header of a batch, or bytes of its records."""
    path = chance.choice(sorted(folder.glob(f"*{files.LOG}")) or [folder / "none"])
    data = bytearray(path.read_bytes()) if path.is_file() else bytearray()
    found = _batches(data)
    if not found:
        return "nothing"
    controls = [each for each in found if data[each[0] + ATTRIBUTES_POSITION + 1] & 0x20]
    position, size = chance.choice(controls if controls and chance.random() < 0.3 else found)
    way = chance.randrange(4)
    if way == 0:
        for _ in range(chance.randrange(1, 4)):
            data[position + chance.randrange(HEADER_SIZE, max(size, HEADER_SIZE + 1)) - 1] ^= (
                1 << chance.randrange(8)
            )
        what = "records"
    elif way == 1:
        at = position + 8 * (chance.random() < 0.5)
        struct.pack_into(">q", data, at if at == position else position + 43, _number(chance, 8))
        what = "offset or producer"
    elif way == 2:
        # A control batch whose count is above one.
        data[position + ATTRIBUTES_POSITION + 1] |= 0x20 | chance.choice([0, 0, 0x10, 0x40, 4])
        count = chance.choice([0, 2, 3, 1000, (1 << 31) - 1])
        struct.pack_into(">i", data, position + 23, max(count - 1, 0))
        struct.pack_into(">i", data, position + 57, count)
        what = f"control batch of {count} records"
    else:
        at = chance.choice(list(_FIELDS))
        number = _number(chance, _FIELDS[at])
        data[position + at : position + at + _FIELDS[at]] = number.to_bytes(
            _FIELDS[at], "big", signed=True
        )
        what = f"field {at} = {number}"
    path.write_bytes(data)
    return f"{path.name} {position}: {what}"


def _number(chance: random.Random, size: int) -> int:
    bits = 8 * size - 1
    most = (1 << bits) - 1
    return chance.choice([-1, 0, 1, -most - 1, most, most - 1, chance.randrange(-most, most)])


def _spoil_file(folder: Path, chance: random.Random) -> str:
    """Cut, lengthen, shuffle or change any file of the segments."""
    kinds = [files.LOG, *_INDEX_FILES]
    paths = sorted(each for kind in kinds for each in folder.glob(f"*{kind}") if each.is_file())
    if not paths:
        return "nothing"
    path = chance.choice(paths)
    data = bytearray(path.read_bytes())
    way = chance.randrange(6)
    place = chance.randrange(len(data) + 1)
    if way == 0:
        del data[place:]
    elif way == 1:
        data += chance.choice(_TAILS)
    elif way == 2:
        end = min(len(data), place + chance.randrange(200))
        data[place:end] = bytes(end - place)
    elif way == 3:
        data[place:place] = data[: chance.randrange(len(data) + 1)]
    elif way == 4:
        data[place : place + 8] = _number(chance, 8).to_bytes(8, "big", signed=True)
    elif data:
        data[place - 1] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return f"{path.name} way {way} at {place}"


def _spoil_small(folder: Path, chance: random.Random) -> str:
    path = folder / chance.choice([files.LEADER_EPOCHS, files.PARTITION_METADATA])
    _spoil_text(path, chance)
    return path.name


def _spoil_text(path: Path, chance: random.Random) -> None:
    """Change a text file: bytes, numbers, its end; or delete it. A folder of that name stays."""
    if path.is_dir():
        return
    text = path.read_bytes() if path.is_file() else b""
    words = text.split(b" ")
    way = chance.randrange(6)
    place = chance.randrange(len(text) + 1)
    if way == 0:
        path.unlink(missing_ok=True)
        return
    if way == 1:
        text = text[:place]
    elif way == 2:
        text = text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]
    elif way == 3:
        words[-1] = b"%d\n" % _number(chance, chance.choice([8, 16]))
        text = b" ".join(words)
    elif way == 4:
        text = b"0\n1\n%d %d\n" % (_number(chance, 8), _number(chance, 8))
    else:
        text += b"\xff\xfe 1 2 3\n"
    path.write_bytes(text)


def _spoil_names(folder: Path, chance: random.Random) -> str:
    """Delete a file, rename it, or put something else in its place."""
    paths = sorted(each for each in folder.iterdir() if each.is_file())
    if not paths:
        return "nothing"
    path = chance.choice(paths)
    way = chance.randrange(5)
    if way == 0:
        path.unlink()
    elif way == 1:
        path.rename(path.with_name(path.name + chance.choice([".swap", ".cleaned", ".deleted"])))
    elif way == 2:
        digits = chance.choice(["5", "00000000000000000005", "9" * 20, "9" * 19 + "0", "9" * 40])
        path.with_name(
            digits + chance.choice([files.LOG, files.INDEX, files.SNAPSHOT])
        ).write_bytes(path.read_bytes())
    elif way == 3:
        path.unlink()
        path.mkdir()
    else:
        path.unlink()
        path.symlink_to(path.name)
    return f"name of {path.name}, way {way}"
