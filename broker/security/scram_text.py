"""The texts by which ``kafka-storage format --add-scram`` creates users (Kafka: ScramParser)."""

import base64
import binascii
import re
from typing import Final, NamedTuple

from siltstone.broker.security import scram

_TEXT: Final = re.compile(r"([A-Z0-9-]+)=\[(.*)\]", re.DOTALL)
_FIELD: Final = re.compile(r"""\s*([a-z]+)\s*=\s*(?:"([^"]*)"|([^,"]*))\s*(?:,|$)""", re.DOTALL)
_FIELDS: Final = {"name", "salt", "iterations", "password", "saltedpassword"}


class ScramUser(NamedTuple):
    """A user and one of its credentials."""

    name: str
    mechanism: scram.Mechanism
    verifier: scram.Verifier


def parse_scram(text: str) -> ScramUser:
    """Return the user of a text like ``SCRAM-SHA-256=[name=alice,password=secret]``. Blocks.

    The text may also have ``iterations`` and ``salt`` (base64), and with a salt ``saltedpassword``
    (base64) instead of the password. A value may be in double quotes.

    Raises:
        ValueError: the text has another form; the message quotes only names from it.
    """
    match = _TEXT.fullmatch(text.strip())
    mechanism = None if match is None else scram.MECHANISMS.get(match[1])
    if match is None or mechanism is None:
        raise ValueError(
            "a user is written as SCRAM-SHA-256=[name=NAME,password=PASSWORD], or with "
            "SCRAM-SHA-512"
        )
    fields = _read_fields(match[2])
    name = fields.get("name", "")
    if not name:
        raise ValueError("name is missing; write SCRAM-SHA-256=[name=NAME,password=PASSWORD]")
    return ScramUser(name, mechanism, _make(name, mechanism, fields))


def _read_fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position)
        if match is None or match[1] not in _FIELDS:
            raise ValueError(
                f"between [ and ] stands name=value, with {', '.join(sorted(_FIELDS))}"
            )
        if match[1] in fields:
            raise ValueError(f"{match[1]} is given twice")
        fields[match[1]] = match[2] if match[2] is not None else match[3].strip()
        position = match.end()
    return fields


def _make(name: str, mechanism: scram.Mechanism, fields: dict[str, str]) -> scram.Verifier:
    iterations = _read_iterations(fields.get("iterations", str(scram.MIN_ITERATIONS)))
    salt = _read_base64("salt", fields["salt"]) if "salt" in fields else None
    password, salted = fields.get("password"), fields.get("saltedpassword")
    if (password is None) == (salted is None):
        raise ValueError(f"give either password or saltedpassword for {name}")
    if salted is None:
        if not password:
            raise ValueError(f"the password of {name} is empty")
        return scram.make_verifier(mechanism, password, iterations=iterations, salt=salt)
    if salt is None:
        raise ValueError(f"saltedpassword of {name} needs the salt that it was made with")
    key = _read_base64("saltedpassword", salted)
    if len(key) != mechanism.size:
        raise ValueError(f"saltedpassword of {name} has not {mechanism.size} bytes")
    return scram.verifier_of(mechanism, key, salt, iterations)


def _read_iterations(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(scram.MAX_ITERATIONS))
    if not is_number or not scram.MIN_ITERATIONS <= int(text) <= scram.MAX_ITERATIONS:
        raise ValueError(
            f"iterations must be from {scram.MIN_ITERATIONS} to {scram.MAX_ITERATIONS}"
        )
    return int(text)


def _read_base64(field: str, text: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{field} is not base64") from error
    if not value:
        raise ValueError(f"{field} is empty")
    return value
