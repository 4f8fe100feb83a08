"""The last receipt of a partition's files, and whether the receipt is still valid."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from siltstone.storage.files import disk
from siltstone.storage.segment.check import checksum_of


class ReceiptFile(NamedTuple):
    """One ``.log`` of a receipt."""

    name: str
    size: int
    crc: str

    def matches(self, path: Path) -> bool:
        """Tell whether a file has the size and the CRC of this one. Blocks."""
        return disk.stat(path).st_size == self.size and crc_of(path) == self.crc


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The files that the last successful pass read, and those that it wrote.

    ``is_last`` is false if a later pass began and did not succeed: that pass may have replaced some
    of the files without a receipt.
    """

    started_ms: int
    end_offset: int
    inputs: tuple[ReceiptFile, ...]
    outputs: tuple[ReceiptFile, ...]
    key_digest: str
    is_last: bool


def find_receipt(events: Iterable[dict[str, Any]]) -> Receipt | None:
    """Return the last receipt among the events of one partition, the oldest of them first."""
    found: dict[str, Any] | None = None
    is_last = True
    for event in events:
        if event.get("outcome") == "cleaned" and "receipt" in event:
            found, is_last = event, True
        else:
            is_last = False
    if found is None:
        return None
    receipt = found["receipt"]
    return Receipt(
        started_ms=found["started_ms"],
        end_offset=found["end_offset"],
        inputs=_files(receipt["groups"], "inputs"),
        outputs=_files(receipt["groups"], "outputs"),
        key_digest=receipt["key_digest"],
        is_last=is_last,
    )


def crc_of(path: Path) -> str:
    """Return the CRC-32C of a file as receipts write it. Blocks."""
    return f"{checksum_of(path):08x}"


def _files(groups: list[dict[str, Any]], kind: str) -> tuple[ReceiptFile, ...]:
    return tuple(
        ReceiptFile(each["name"], each["size"], each["crc32c"])
        for group in groups
        for each in group[kind]
    )
