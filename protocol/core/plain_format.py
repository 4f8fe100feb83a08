"""Numbers and the checksum of the plain form; `protocol.records` has the reader of a record."""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)

_POLYNOMIAL: Final = 0x11EDC6F41


class Crc(Protocol):
    """A checksum that can go on from an earlier value; 0 starts."""

    def __call__(self, data: "Buffer", value: int = 0, /) -> int:
        """Return the checksum of `data`, going on from `value`."""


def choose_package() -> Crc:
    """Return the fastest CRC-32C that is installed.

    The crc32c package uses the processor's instruction and works without the GIL on large buffers.
    crcmod computes the same number many times slower, with the GIL.
    """
    try:
        from crc32c import crc32c  # noqa: PLC0415 - may be missing
    except ImportError:
        return portable_crc32c()
    return crc32c


def portable_crc32c() -> Crc:
    """Return crcmod's CRC-32C, for machines that the crc32c package does not know."""
    import crcmod  # noqa: PLC0415 - 10 ms that only such a machine pays

    function: Crc = crcmod.mkCrcFun(_POLYNOMIAL, initCrc=0, rev=True, xorOut=0xFFFFFFFF)
    return function
