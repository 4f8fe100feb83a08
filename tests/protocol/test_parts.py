"""File ranges in responses."""

from pathlib import Path

from siltstone.protocol.parts import FileSlice, Parts


def test_a_slice_is_as_long_as_its_range(tmp_path: Path) -> None:
    """Outgoing bytes are counted without touching the file."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        parts: Parts = [b"head", FileSlice(file, 2, 5), b""]

        assert [len(part) for part in parts] == [4, 5, 0]
