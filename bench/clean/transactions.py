"""Has Apache Kafka write a set of transactions, every tenth of them aborted."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from bench.clean.filling import SEGMENT_BYTES, key_of, values_of
from tests.support.clients.confluent import Confluent

if TYPE_CHECKING:
    from pathlib import Path

    from bench.brokers import Broker
    from bench.clean.sets import DataSet

_ABORTED = 10
_TIMEOUT = 60


def fill_with_transactions(data_set: DataSet, broker: Broker, topic: str, folder: Path) -> None:
    """Write a set through a broker that is up, stop it, and copy its segments."""
    client = Confluent(broker.bootstrap)
    client.create(topic, 1, {"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES)})
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": "bench",
            "batch.num.messages": data_set.batch_records,
            "linger.ms": 5,
        }
    )
    producer.init_transactions(_TIMEOUT)
    random = Random(2)
    values = values_of(data_set)
    for number in range(data_set.records // data_set.transaction_records):
        producer.begin_transaction()
        keys = random.choices(range(data_set.keys), k=data_set.transaction_records)
        for key, value in zip(keys, random.choices(values, k=len(keys)), strict=True):
            producer.produce(topic, key=key_of(key), value=value, partition=0)
        if number % _ABORTED:
            producer.commit_transaction(_TIMEOUT)
        else:
            producer.flush(_TIMEOUT)  # what is not sent yet would not be in the log at all
            producer.abort_transaction(_TIMEOUT)
    client.alter(topic, {"segment.ms": "1"})  # the next record begins a segment
    last = Producer({"bootstrap.servers": broker.bootstrap})
    last.produce(topic, key=key_of(0), value=b"last", partition=0)
    last.flush(_TIMEOUT)
    broker.stop()
    folder.mkdir(parents=True)
    for path in (broker.folder / f"{topic}-0").glob("*.log"):
        shutil.copy2(path, folder / path.name)
