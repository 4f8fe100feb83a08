"""JSON files of the broker: a byte that changes anywhere is noticed."""

import json

import pytest
from crcmod import predefined

from siltstone.storage.directory.strict_json import read_sealed, seal

TEXT = b'{"version": 1, "rules": [\n ["User:a", "ALLOW"],\n ["User:b", "DENY"]\n]}\n'
SEALED = seal(TEXT)


def test_a_sealed_text_is_read() -> None:
    """It has what it had, and a checksum; so has the text without one."""
    checksum = f"{predefined.mkCrcFun('crc-32c')(SEALED[: SEALED.rindex(b',')]):08x}"
    assert read_sealed(SEALED, 1, ("rules",)) == {**json.loads(TEXT), "crc32c": checksum}
    assert read_sealed(TEXT, 1, ("rules",)) == json.loads(TEXT)


@pytest.mark.parametrize("change", [1, 2, 4, 8, 16, 32, 64, 128, 255])
def test_no_byte_changes_unseen(change: int) -> None:
    """Not one of the checksum or of its name either."""
    for at in range(len(SEALED)):
        damaged = bytearray(SEALED)
        damaged[at] ^= change
        with pytest.raises(ValueError, match=r"."):
            read_sealed(bytes(damaged), 1, ("rules",))


def test_no_end_is_missing_unseen() -> None:
    """Nor is anything behind the end."""
    for end in range(len(SEALED)):
        with pytest.raises(ValueError, match=r"."):
            read_sealed(SEALED[:end], 1, ("rules",))
    with pytest.raises(ValueError, match="its checksum is wrong"):
        read_sealed(SEALED + b"\n", 1, ("rules",))


def test_a_name_of_a_newer_program_is_refused() -> None:
    """A change of this program would lose it."""
    with pytest.raises(ValueError, match="it has 'groups', which this program does not know"):
        read_sealed(b'{"version": 1, "rules": [], "groups": []}', 1, ("rules",))
