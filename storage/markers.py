"""The markers that end transactions (Kafka: ``ControlRecordType``, ``EndTransactionMarker``)."""

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.records.record import iterate_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class MarkerKind(IntEnum):
    """How a transaction ended; the number is that of the control record."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """What a marker says besides the producer in its batch's header."""

    kind: MarkerKind
    coordinator_epoch: int


def read_marker(batch: "Buffer") -> Marker | None:
    """Return the marker in a control batch; None if it is empty or holds another control record.

    Raises:
        InvalidRecord: The record cannot be read.
    """
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
