"""A record batch reader of Python code as a stream of Arrow's C interface.

Such a reader ends its iterator when it is closed, not only when it is collected. Its errors are
texts. Of an error of this package only the sentence is left, without Python's traceback.
"""

import ctypes
from functools import cache
from typing import Any, Final

import pyarrow as pa

from siltstone.pipeline import errors

_OURS: Final = f"\n{errors.__name__}.".encode()
_PLACE: Final = ctypes.c_void_p
_GET_LAST_ERROR: Final[Any] = ctypes.CFUNCTYPE(_PLACE, _PLACE)
_get_pointer: Final = ctypes.PYFUNCTYPE(_PLACE, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _ArrowArrayStream(ctypes.Structure):
    """The functions of a stream, which are all that Arrow's interface promises."""

    _fields_ = tuple(
        (name, _PLACE)
        for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
    )


def as_stream(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a reader of the same batches that lets go of them when it is closed."""
    return pa.RecordBatchReader.from_stream(_Stream(reader))


class _Stream:
    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        capsule = self._reader.__arrow_c_stream__(requested_schema)
        stream = _ArrowArrayStream.from_address(_get_pointer(capsule, b"arrow_array_stream"))
        stream.get_last_error = ctypes.cast(_shortened(stream.get_last_error), _PLACE).value
        return capsule


@cache
def _shortened(get_last_error: int) -> Any:
    """Return a function that gives the sentence of what another one says, kept for good."""
    ask = _GET_LAST_ERROR(get_last_error)

    def shorten(stream: int) -> int | None:
        """Cut the text ``KIND: SENTENCE. Detail: TRACEBACK`` where it is."""
        place: int | None = ask(stream)
        said = ctypes.string_at(place) if place else b""
        if place is None or _OURS not in said:
            return place
        ctypes.memset(place + said.index(b". Detail: Python exception:"), 0, 1)
        return place + said.index(b": ") + 2

    return _GET_LAST_ERROR(shorten)
