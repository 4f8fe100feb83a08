"""Kafka's dump tool over __consumer_offsets as our broker writes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.names import uuid_text
from siltstone.protocol.records.build import COMMIT, build_marker
from siltstone.protocol.records.journal import Producer
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.producers.checks import Origin
from siltstone.storage.randomness import random_id
from tests.support.committed import new_offsets
from tests.support.kafka import KafkaTools
from tests.support.services import ServicesOnDisk

pytestmark = [pytest.mark.client, pytest.mark.java]


def decoded(printed: str, word: str) -> list[dict[str, Any]]:
    """Return the JSON objects that follow a word in what kafka-dump-log prints."""
    reader = json.JSONDecoder()
    return [
        reader.raw_decode(line, line.index(word) + len(word))[0]
        for line in printed.splitlines()
        if word + "{" in line
    ]


async def test_the_offsets_decoder_reads_our_records(
    tmp_path: Path, kafka_tools: KafkaTools
) -> None:
    """Plain and expiring offsets, those with a topic's id, a group, tombstones, a transaction's."""
    home = await ServicesOnDisk(tmp_path, offsets_topic_num_partitions="1").open()
    groups = home.services.groups()
    await groups.journal.ensure_created()
    groups.find_or_create_classic("g", "")
    groups.offsets.append("g", 0, new_offsets(("orders", 3, OffsetCommitValue(42, 1, "mine", 7))))
    groups.offsets.append("g", 0, new_offsets(("orders", 4, OffsetCommitValue(43, -1, "", 7, 99))))
    groups.offsets.append_transactional(
        "g", 0, new_offsets(("orders", 5, OffsetCommitValue(44, -1, "", 7))), Producer(5, 0)
    )
    marker = build_marker(0, 7, COMMIT, 0, producer_id=5, producer_epoch=0)
    log = home.services.topics.logs["__consumer_offsets", 0]
    log.append(
        ValidatedBatch(memoryview(marker), len(marker), 0, 1, 0x30, 7, 5, 0, -1, -1),
        Origin.COORDINATOR,
    )
    groups.offsets.complete(0, 5, is_commit=True)
    assert groups.delete_offsets(groups.groups["g"], [("orders", 3)]) == 1
    topics = home.services.topics
    again = await topics.create("again", 1, {})
    topics.retired.update({"again": random_id()})  # as if another one had been deleted
    groups.offsets.append("g", 0, new_offsets(("again", 0, OffsetCommitValue(45, -1, "", 7))))
    folder = log.path
    await home.close()

    printed = kafka_tools.run(
        "DumpLogSegments", *("--offsets-decoder", "--files", str(folder / f"{0:020}.log"))
    )

    keys = decoded(printed, "key: ")
    assert [key["type"] for key in keys] == ["2", "1", "1", "1", "1", "1"]
    assert [key["data"].get("partition") for key in keys] == [None, 3, 4, 5, 3, 0]
    group, first, second, third, fourth = decoded(printed, "payload: ")
    assert group["version"] == "3"
    assert group["data"]["members"] == []
    assert (first["version"], first["data"]["offset"], first["data"]["metadata"]) == (
        "3",
        42,
        "mine",
    )
    assert (second["version"], second["data"]["expireTimestamp"]) == ("1", 99)
    assert third["data"]["offset"] == 44
    assert (fourth["version"], fourth["data"]["offset"]) == ("4", 45)
    assert fourth["data"]["topicId"] == uuid_text(again.id)
    assert "endTxnMarker: COMMIT" in printed
