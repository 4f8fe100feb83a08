"""Records of ``__transaction_state`` that nobody can read: skipped, each with a line."""

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from siltstone.broker.transactions.transaction import MAX_EPOCH
from siltstone.protocol.coordinator.transaction_records import (
    TransactionLogValue,
    encode_key,
    encode_value,
)
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.names import TRANSACTIONS_TOPIC
from siltstone.protocol.records.journal import Row
from tests.support.services import ServicesOnDisk
from tests.support.transactional import end, init, open_home, produce

ONGOING, PREPARE_ABORT = 1, 3


def value(status: int = ONGOING, epoch: int = 3, topic: str = "orders") -> TransactionLogValue:
    """Return what is known of a transactional id."""
    partitions = frozenset({(topic, 0), (topic, 1)})
    return TransactionLogValue(77, 5, -1, epoch, 1000, status, partitions, 1, 1, 2)


GOOD = encode_value(value())
UNREADABLE: dict[str, Row] = {
    "an id of a negative length": (b"\0\0\xff\xfeid", GOOD),
    "an id that is null": (b"\0\0\xff\xff", GOOD),
    "an id longer than the key": (b"\0\0\x7f\xffid", GOOD),
    "an id that is too long as text": (b"\0\0\x7f\xff" + b"\xff" * 32_767, GOOD),
    "no id": (b"\0", GOOD),
    "an empty value": (encode_key("id"), b""),
    "a value cut short": (encode_key("id"), GOOD[:-4]),
    "a version to come": (encode_key("id"), b"\0\2" + GOOD[2:]),
    "a state that nobody knows": (encode_key("id"), GOOD[:16] + b"\x63" + GOOD[17:]),
    "two thousand million topics": (encode_key("id"), GOOD[:17] + b"\xff\xff\xff\xff\7"),
    "a producer id of three bytes": (encode_key("id"), GOOD[:-15] + b"\1\0\3abc"),
    "a transaction in the last epoch": (encode_key("id"), encode_value(value(epoch=MAX_EPOCH))),
}


async def reopened(home: ServicesOnDisk, root: Path, rows: Sequence[Row]) -> ServicesOnDisk:
    """Return the broker after a restart, with these records in both partitions of the journal."""
    await home.services.transactions().journal.ensure_created()
    for partition in range(2):
        for row in rows:
            home.services.transactions().journal.append(partition, [row])
    await home.close()
    return await open_home(root)


@pytest.mark.parametrize("name", UNREADABLE)
async def test_a_record_that_can_not_be_read_is_skipped(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line names partition, offset and reason; producers go on, time-outs are looked for."""
    home = await reopened(await open_home(tmp_path), tmp_path, [UNREADABLE[name]])
    lines = [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]
    producer = await init(home)
    produce(home, producer)
    end(home, producer)
    await home.services.transactions().abort_timed_out()
    await home.close()

    assert [line.partition(" reason=")[0] for line in lines] == [
        f"record cannot be read and is skipped partition={TRANSACTIONS_TOPIC}-{each} offset=0"
        for each in range(2)
    ]
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_in_the_journal_time_goes_on(seed: int, tmp_path: Path) -> None:
    """Values with bytes changed are carried out, time out, expire, or are refused."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for number in range(400):
        said = value(chance.choice((ONGOING, PREPARE_ABORT)), chance.choice((0, 3, 32_766)))
        data = bytearray(encode_value(said, number % 2))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(2, len(data))
            data[at : at + 2] = chance.choice(
                (b"\xff\xff", b"\0\0", b"\x7f", b"", struct.pack(">h", at))
            )
        rows.append((encode_key(f"id-{number % 40}"), bytes(data)))

    home = await reopened(await open_home(tmp_path), tmp_path, rows)
    transactions = home.services.transactions()
    assert transactions.journal.is_settled
    for transactional_id, _ in list(transactions.list_all()):
        try:
            await init(home, transactional_id)
        except KafkaError:
            continue
    await transactions.abort_timed_out()
    await transactions.settle()
    home.clock.advance(1 << 40)
    await transactions.remove_expired()
    await home.close()
