"""An int16 and a message by its table: records of coordinators, and metadata of consumers.

A key begins with the type of its record, all other bytes with their version.
"""

from struct import Struct
from typing import Any, Final

from siltstone.protocol.core import write
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Message
from siltstone.protocol.parts import Buffer

MAX_EPOCH: Final = 1 << 30
"""No group reaches this by counting, and one that starts here can count as far again."""

_INT16: Final = Struct(">h")


def write_key(message: Message, row: Any) -> bytes:
    """Return a key of a message's type."""
    return write(message.table(0), row, message.key)


def write_value(message: Message, version: int, row: Any) -> bytes:
    """Return the bytes of a version and of a message after it."""
    return write(message.table(version), row, version)


def read_head(data: Buffer) -> int:
    """Return the type or the version.

    Raises:
        ProtocolError: There are too few bytes.
    """
    if len(data) < _INT16.size:
        raise ProtocolError(f"{len(data)} bytes have neither a type nor a version")
    head: int = _INT16.unpack_from(data)[0]
    return head


def read_body(message: Message, version: int, data: Buffer) -> Any:
    """Return the message that follows the type or the version.

    Raises:
        ProtocolError: The bytes are no such message, or the version does not exist.
    """
    return read_bounded(message, version, data, len(data))[0]


def read_bounded(
    message: Message, version: int, data: Buffer, max_elements: int
) -> tuple[Any, int]:
    """Return the message that follows the type or the version, and the position after it.

    Raises:
        ProtocolError: The bytes are no such message, it has too many elements, or the version does
            not exist.
    """
    if not message.first <= version <= message.last:
        raise ProtocolError(f"version {version} of {message.struct.__name__} is not known")
    return message.read(version, data, _INT16.size, len(data), room=max_elements)


def read_value(message: Message, data: Buffer) -> Any:
    """Return a message that follows its version.

    Raises:
        ProtocolError: See `read_body`.
    """
    return read_body(message, read_head(data), data)


def check_epoch(epoch: int) -> None:
    """Refuse an epoch of a group or a member that is too near to the highest possible epoch.

    Raises:
        ProtocolError: The epoch is too high.
    """
    if epoch > MAX_EPOCH:
        raise ProtocolError(f"an epoch of {epoch}")
