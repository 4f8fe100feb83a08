"""Records of a partition as /api/records shows them."""

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from siltstone.broker.http.api import records
from siltstone.broker.http.control.token import read_address
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.protocol.records.compression import GZIP, ZSTD
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin
from tests.support.appending import append
from tests.support.batches import TIMESTAMP
from tests.support.http_client import Answer, ask
from tests.support.logs import validated
from tests.support.ports import address_of
from tests.support.running import Running, a_broker

broker = a_broker()


async def make_log(broker: Running) -> Log:
    """Return the log of a new topic t."""
    await broker.topics.create("t", 1, {})
    log = broker.topics.topics["t"].logs[0]
    assert log is not None
    return log


async def look(broker: Running, **query: Any) -> Answer:
    """Return an answer about the topic."""
    address = read_address(broker.logs.directories[0].path)
    assert address is not None
    return await ask(address_of(address)[1], f"/api/records?{urlencode({'topic': 't', **query})}")


async def told(broker: Running, **query: Any) -> dict[str, Any]:
    """Return an answer that is fine."""
    answer = await look(broker, **query)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


def offsets(answer: dict[str, Any]) -> list[int]:
    """Return the offsets of the records."""
    return [each["offset"] for each in answer["records"]]


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
async def test_the_last_ones_and_by_offset_and_time(broker: Running, codec: int) -> None:
    """A batch may be compressed; the answer says what it has looked through."""
    log = await make_log(broker)
    for each in range(30):
        append(log, 10, codec=codec, timestamp=TIMESTAMP + 1000 * each)

    last = await told(broker, limit=15)
    assert offsets(last) == list(range(285, 300))
    assert (last["from_offset"], last["next_offset"], last["end_offset"]) == (285, 300, 300)
    assert last["records"][0]["key"] == {"size": 2, "text": "k5"}
    assert last["records"][0]["timestamp_ms"] == TIMESTAMP + 28_005

    assert offsets(await told(broker, before=285, limit=3)) == [282, 283, 284]
    later = await told(broker, offset=7, limit=5)
    assert (offsets(later), later["from_offset"]) == ([7, 8, 9, 10, 11], 7)
    assert later["next_offset"] == 12
    assert offsets(await told(broker, time_ms=TIMESTAMP + 2003, limit=1)) == [23]
    assert offsets(await told(broker, time_ms=TIMESTAMP + 10**9)) == []
    assert offsets(await told(broker, offset=300)) == []
    assert offsets(await told(broker, before=0)) == []


async def test_the_last_ones_with_a_key(broker: Running) -> None:
    """The key is text; a null value is a tombstone; the look goes on from where it ended."""
    log = await make_log(broker)
    append(log, [("schlüssel".encode(), b"old")])
    for _ in range(50):
        append(log, 100)
    append(log, [("schlüssel".encode(), None)])

    found = await told(broker, key="schlüssel")
    assert offsets(found) == [0, 5001]
    assert found["records"][0]["value"] == {"size": 3, "text": "old"}
    assert found["records"][1]["value"] is None
    assert offsets(await told(broker, key="schlüssel", before=5001)) == [0]
    assert offsets(await told(broker, key="other")) == []


async def test_a_look_has_an_end(broker: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how far it came, and the next one goes on from there."""
    monkeypatch.setattr(records, "LOOKED_BYTES", 3 << 20)
    log = await make_log(broker)
    append(log, [(b"first", b"v")])
    for _ in range(80):
        append(log, [(b"k", b"v" * 100_000)])

    found = await told(broker, key="first")
    assert offsets(found) == []
    assert 20 < found["from_offset"] < 70
    while not offsets(found):
        before = found["from_offset"]
        found = await told(broker, key="first", before=before)
        assert found["from_offset"] < before
    assert offsets(found) == [0]
    assert offsets(await told(broker, limit=3)) == [78, 79, 80]


async def test_bytes_are_cut_and_shown_as_what_they_are(broker: Running) -> None:
    """Text is not cut within a letter; what is no text is hex."""
    log = await make_log(broker)
    append(log, [(b"\xff\x00", b"a" + "ü".encode() * 4000)])

    (record,) = (await told(broker))["records"]
    assert record["key"] == {"size": 2, "hex": "ff00"}
    assert record["value"] == {"size": 8001, "text": "a" + "ü" * 2047}


async def test_what_unfolds_is_not_kept(broker: Running) -> None:
    """A batch of some KiB has 60 MB of values; of each the beginning stays."""
    log = await make_log(broker)
    append(log, [(b"k", bytes(1 << 20))] * 60, codec=ZSTD)
    tracemalloc.start()
    try:
        found = await told(broker, limit=60)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [each["value"]["size"] for each in found["records"]] == [1 << 20] * 60
    assert peak < 20 << 20


async def test_aborted_records_and_markers_are_left_out(broker: Running) -> None:
    """As for a client with isolation.level=read_committed."""
    log = await make_log(broker)
    append(log, 2)
    append(log, 3, producer_id=8, producer_epoch=0, base_sequence=0, flags=0x10)
    assert offsets(await told(broker)) == [0, 1]
    append_marker(log)
    append(log, 1)

    found = await told(broker)
    assert offsets(found) == [0, 1, 6]
    assert found["end_offset"] == 7
    assert offsets(await told(broker, offset=2)) == [6]


def append_marker(log: Log) -> None:
    """Abort the transaction of producer 8."""
    marker = build_marker(0, TIMESTAMP, ABORT, 0, producer_id=8, producer_epoch=0)
    log.append(validated(marker), Origin.COORDINATOR)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"topic": "none"}, 404, "there is no topic 'none' here"),
        ({"partition": 1}, 400, "partition is '1'"),
        ({"offset": 1, "before": 2}, 400, "takes one of offset, time_ms and before"),
        ({"key": "k", "offset": 2}, 400, "with key only before"),
        ({"limit": 1000}, 400, "write a number from 1 to 200"),
        ({"offset": "-1"}, 400, "offset is '-1'"),
    ],
)
async def test_invalid_questions(
    broker: Running, query: dict[str, Any], status: int, words: str
) -> None:
    """Each is one sentence."""
    await make_log(broker)
    answer = await look(broker, **query)

    assert answer.status == status
    assert words in answer.body.decode()


async def test_a_large_batch_is_not_opened(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory has a limit, and the sentence says what shows it."""
    monkeypatch.setattr(records, "BATCH_BYTES", 100_000)
    monkeypatch.setattr(records, "WINDOW_BYTES", 1000)
    log = await make_log(broker)
    append(log, [(b"k", b"v" * 100_000)])
    answer = await look(broker)

    assert answer.status == 413
    assert b"use siltstone consume" in answer.body


async def test_others_are_served_meanwhile(broker: Running) -> None:
    """A look through 50,000 records rests again and again."""
    log = await make_log(broker)
    for _ in range(50):
        append(log, 1000, codec=ZSTD)
    turns = 0
    task = asyncio.create_task(told(broker, key="nothing"))
    while not task.done():
        await asyncio.sleep(0)
        turns += 1

    assert offsets(await task) == []
    assert turns > 50


async def test_other_sites_are_refused(broker: Running, tmp_path: Path) -> None:
    """As from all of /api/."""
    await make_log(broker)
    address = read_address(broker.logs.directories[0].path)
    assert address is not None
    path, headers = "/api/records?topic=t", "Origin: http://elsewhere.example\r\n"
    answer = await ask(address_of(address)[1], path, headers=headers)

    assert answer.status == 403
