"""The markers that end transactions (Kafka: ``ControlRecordType``, ``EndTransactionMarker``)."""

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.records.record import iterate_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
# The record as every broker writes it: see `protocol.records.build.build_marker`.
_USUAL: Final = struct.Struct(">7shB2six")
_USUAL_SIZE: Final = HEADER_SIZE + _USUAL.size
_USUAL_HEAD: Final = b"\x20\0\0\0\x08\0\0"


class MarkerKind(IntEnum):
    """How a transaction ended; the number is that of the control record."""

    ABORT = 0
    COMMIT = 1


_KINDS: Final = tuple(MarkerKind)


class Marker(NamedTuple):
    """The content of a marker, besides the producer in its batch's header."""

    kind: MarkerKind
    coordinator_epoch: int


def read_marker(batch: "Buffer") -> Marker | None:
    """Return the marker in a control batch; None if it is empty or holds another control record.

    Raises:
        InvalidRecord: The record cannot be read.
    """
    view = memoryview(batch)
    if len(view) == _USUAL_SIZE:
        head, kind, value_size, version, epoch = _USUAL.unpack_from(view, HEADER_SIZE)
        if (
            head == _USUAL_HEAD
            and 0 <= kind < len(_KINDS)
            and value_size == 0x0C
            and version == b"\0\0"
        ):
            return Marker(_KINDS[kind], epoch)
    for record in iterate_records(batch):
        if record.key is None or len(record.key) < _KEY.size:
            return None
        _, kind = _KEY.unpack_from(record.key)
        if kind not in (MarkerKind.ABORT, MarkerKind.COMMIT):
            return None
        if record.value is None or len(record.value) < _VALUE.size:
            return None
        return Marker(MarkerKind(kind), _VALUE.unpack_from(record.value)[1])
    return None
