"""Reads certificates, their subjects and dates, and the blocks of a PEM file.

The ``ssl`` module gives neither subject nor dates of our own certificate, nor a client's name as
Java writes it (RFC 2253). So this module reads these few fields from the DER. OpenSSL decides
whether a client's certificate is valid; this module reads it only after that.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

_INTEGER: Final = 0x02
_OID: Final = 0x06
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""Tags that Java writes as text; it reads all of them as UTF-8, whatever the tag says."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attribute names of RFC 2253 and Java's X500Principal.getName; others are numbers."""
_ESCAPED: Final = {**{ord(each): f"\\{each}" for each in ',=+<>#;"\\'}, 0: "\\00"}
_BLANKS: Final = " \r"
"""Characters that are escaped at the start or the end of a value."""

_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL
)
_WIDTH: Final = 64


class Certificate(NamedTuple):
    """The fields that are needed; ``subject`` is a distinguished name in the form of RFC 2253."""

    subject: str
    not_before: datetime
    not_after: datetime


class Block(NamedTuple):
    """One block of a PEM file, with line breaks as OpenSSL needs them."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        """Whether the block is a private key."""
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """Whether the block is a key that needs a password."""
        return self.label == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in self.text.splitlines()[1]


def read_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a PEM text; a block on a single line is cut into lines again."""
    for match in _BLOCK.finditer(text):
        label, body = match["label"], match["body"].strip()
        if ":" not in body:  # the old form of an encrypted key has headers
            packed = "".join(body.split())
            body = "\n".join(
                packed[start : start + _WIDTH] for start in range(0, len(packed), _WIDTH)
            )
        yield Block(label, f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")


def read_block(block: Block) -> Certificate:
    """Return what the certificate of a block says.

    Raises:
        ValueError: The block has no certificate, or a needed field cannot be read.
    """
    body = "".join(block.text.splitlines()[1:-1])
    try:
        return read_certificate(base64.b64decode(body, validate=True))
    except binascii.Error as error:
        raise ValueError("it is not base64") from error


def read_certificate(der: bytes) -> Certificate:
    """Return what a certificate says.

    Raises:
        ValueError: It is not a certificate, or a needed field cannot be read.
    """
    try:
        [outer] = _values(der)
        fields = list(_values(next(_values(_of(_SEQUENCE, outer)))[1]))
        if fields[0][0] == _VERSION:
            del fields[0]
        _of(_INTEGER, fields[0])
        _, _, _, validity, subject, *_ = fields
        not_before, not_after = map(_time, _values(_of(_SEQUENCE, validity)))
        return Certificate(_name(_of(_SEQUENCE, subject)), not_before, not_after)
    except (IndexError, StopIteration, UnicodeDecodeError, OverflowError) as error:
        raise ValueError("it is no certificate") from error


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the values of DER that follow each other, each with its tag."""
    position = 0
    while position < len(data):
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4:
                raise ValueError("it has a length that cannot be")
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        if position + length > len(data):
            raise ValueError("it is cut short")
        yield tag, data[position : position + length]
        position += length


def _of(tag: int, value: tuple[int, bytes]) -> bytes:
    if value[0] != tag:
        raise ValueError(f"it has the tag {value[0]} where {tag} belongs")
    return value[1]


def _time(value: tuple[int, bytes]) -> datetime:
    tag, octets = value
    text = octets.decode("ascii")
    if tag == _UTC_TIME:  # RFC 5280: two digits of a year from 1950 on
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _name(rdns: bytes) -> str:
    """Return a distinguished name as Java's X500Principal.getName() does: the last part first."""
    parts = [
        "+".join(_attribute(_of(_SEQUENCE, each)) for each in _values(_of(_SET, rdn)))
        for rdn in _values(rdns)
    ]
    return ",".join(reversed(parts))


def _attribute(pair: bytes) -> str:
    (kind, number), (tag, octets) = _values(pair)
    oid = _oid(_of(_OID, (kind, number)))
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or oid}=#{_encoded(tag, octets).hex()}"
    return f"{keyword}={_escape(octets.decode(errors='replace'))}"


def _encoded(tag: int, octets: bytes) -> bytes:
    size = len(octets)
    if size < 0x80:
        return bytes((tag, size)) + octets
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + octets


def _oid(octets: bytes) -> str:
    numbers = []
    number = 0
    for octet in octets:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    """Return a value as Java's AVA.toRFC2253String() writes it."""
    escaped = text.translate(_ESCAPED)
    first = len(escaped) - len(escaped.lstrip(_BLANKS))
    last = len(escaped.rstrip(_BLANKS))
    return "".join(
        f"\\{each}" if not first <= at < last else each for at, each in enumerate(escaped)
    )
