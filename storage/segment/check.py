"""Reads a `.log` file to check it, without the code of the core that wrote it.

crcmod computes the checksum, and Python code reads the header and the records
(docs/decisions/0012-the-codecs.md). Only commands use this module: crcmod keeps the GIL.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from siltstone.protocol.core.constants import ATTRIBUTES_POSITION, HEADER_SIZE, MAGIC, MIN_LENGTH
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.files import disk

if TYPE_CHECKING:
    from typing_extensions import Buffer

_POLYNOMIAL: Final = 0x11EDC6F41
_CHUNK: Final = 1 << 20


class Checksum(Protocol):
    """A CRC-32C that can continue from an earlier value; the first value is 0."""

    def __call__(self, data: "Buffer", value: int = 0, /) -> int:
        """Return the checksum of `data`, continued from `value`."""


class CheckedBatch(NamedTuple):
    """A batch of a file; ``is_sound`` tells whether its checksum is right."""

    path: Path
    position: int
    header: BatchHeader
    data: bytes
    is_sound: bool

    @property
    def place(self) -> str:
        """Return where the batch is, in words."""
        return place_of(self.path, self.position)


@cache
def find_checksum() -> Checksum:
    """Return the checker's CRC-32C."""
    import crcmod  # noqa: PLC0415 - 10 ms that only a check pays

    function: Checksum = crcmod.mkCrcFun(_POLYNOMIAL, initCrc=0, rev=True, xorOut=0xFFFFFFFF)
    return function


def checksum_of(path: Path) -> int:
    """Return the CRC-32C of a whole file. Blocks."""
    checksum = find_checksum()
    value = 0
    with files.opened(path) as file:
        while chunk := disk.read(file, _CHUNK):
            value = checksum(chunk, value)
    return value


def place_of(log: Path, position: int) -> str:
    """Return the words for a place in a file."""
    return f"{log.name} position {position}"


def find_faults(header: BatchHeader, expected: int) -> Iterator[str]:
    """Yield the faults in the offsets of a batch; all earlier batches ended below ``expected``."""
    if header.base_offset < expected:
        yield f"offset {header.base_offset} is not above {expected - 1}"
    if header.last_offset_delta < header.count - 1:
        yield f"{header.count} records do not fit the offsets of the batch"


def check_log(
    log: Path, fault: Callable[[str], None], torn: Callable[[str], None] | None = None
) -> Iterator[CheckedBatch]:
    """Yield the batches of a file; call ``fault`` with a sentence for each fault. Blocks.

    It ends at bytes that are no batch, since it is not known where the next batch begins. If
    ``torn`` is given, it gets the sentence about these bytes.
    """
    checksum = find_checksum()
    position = 0
    with files.opened(log) as file:
        size = files.size_of(file)
        while size - position >= HEADER_SIZE:
            header = BatchHeader.read(files.read_at(file, HEADER_SIZE, position))
            if header.length < MIN_LENGTH or header.magic != MAGIC or header.size > size - position:
                break
            batch = files.read_at(file, header.size, position)
            is_sound = checksum(memoryview(batch)[ATTRIBUTES_POSITION:]) == header.crc
            if not is_sound:
                fault(f"{place_of(log, position)}: the checksum is wrong")
            yield CheckedBatch(log, position, header, batch, is_sound)
            position += header.size
    if position < size:
        (torn or fault)(f"{place_of(log, position)}: no batch begins there")
