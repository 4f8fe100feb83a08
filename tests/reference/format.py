"""Numbers and the checksum of the reference; `protocol.records` has the reader of a record."""

from typing import TYPE_CHECKING, Final, Protocol

import crcmod

if TYPE_CHECKING:
    from typing_extensions import Buffer

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)


class Crc(Protocol):
    """A checksum that can go on from an earlier value; 0 starts."""

    def __call__(self, data: "Buffer", value: int = 0, /) -> int:
        """Return the checksum of `data`, going on from `value`."""


crc32c: Crc = crcmod.mkCrcFun(0x11EDC6F41, initCrc=0, rev=True, xorOut=0xFFFFFFFF)
