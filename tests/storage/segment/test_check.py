"""The checker of files shares no code with the core that wrote them."""

import sys
from pathlib import Path

import pytest

from siltstone.protocol.core import crc32c
from siltstone.storage.segment.check import check_log, checksum_of, find_checksum
from tests.support.batches import make_batch
from tests.support.programs import run_to_end

WITHOUT_CORE = """
import sys
from pathlib import Path
import siltstone.protocol.core as core
import siltstone.storage.segment.check as check

def refuse(*_, **__):
    raise AssertionError("the core was asked")

for name in core.__all__:
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("siltstone") and name in vars(module):
            if callable(getattr(module, name)):
                setattr(module, name, refuse)
faults = []
print(len(list(check.check_log(Path(sys.argv[1]), faults.append))), faults)
"""


def test_both_checksums_are_the_same() -> None:
    """Of the nine digits, and going on."""
    checksum = find_checksum()

    assert checksum(b"123456789") == crc32c(b"123456789") == 0xE3069283
    assert checksum(b"6789", checksum(b"12345")) == 0xE3069283


def test_a_file_is_checked_without_the_core(tmp_path: Path) -> None:
    """No function of the core is called."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(make_batch(2) + make_batch(1, base_offset=2))

    done = run_to_end(
        [sys.executable, "-c", WITHOUT_CORE, str(path)], check=True, cwd=Path(__file__).parents[3]
    )

    assert done.stdout == "2 []\n"


@pytest.mark.parametrize(("cut", "added", "place"), [(0, b"", -1), (1, b"", 1), (0, b"junk", 2)])
def test_bytes_that_are_no_batch_end_it(tmp_path: Path, cut: int, added: bytes, place: int) -> None:
    """A batch that is cut short, and bytes behind the last one, are told by their place."""
    batches = [make_batch(2), make_batch(1, base_offset=2)]
    data = b"".join(batches)
    path = tmp_path / "00.log"
    path.write_bytes(data[: len(data) - cut] + added)
    told: list[str] = []

    sound = list(check_log(path, told.append))

    at = sum(map(len, batches[:place]))
    assert told == ([f"00.log position {at}: no batch begins there"] if place > 0 else [])
    assert len(sound) == 2 - cut


def test_a_wrong_checksum_does_not_end_it(tmp_path: Path) -> None:
    """The length still says where the next batch begins."""
    first, second = make_batch(1), make_batch(1, base_offset=1)
    first[-1] ^= 1
    path = tmp_path / "00.log"
    path.write_bytes(first + second)
    told: list[str] = []

    batches = list(check_log(path, told.append))

    assert [(each.position, each.is_sound) for each in batches] == [(0, False), (len(first), True)]
    assert told == ["00.log position 0: the checksum is wrong"]
    assert checksum_of(path) == crc32c(path.read_bytes())
