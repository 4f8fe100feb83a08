"""The sums of customers' orders, read from a topic, with kafka-python."""

from __future__ import annotations

import json
from collections import Counter

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def place_orders(bootstrap_servers: str, topic: str, orders: list[tuple[str, int]]) -> None:
    """Write orders, each a customer and an amount, and return when the broker has them."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for customer, amount in orders:
        order = json.dumps({"customer": customer, "amount": amount})
        producer.send(topic, order.encode(), key=customer.encode())
    producer.flush()
    producer.close()


def sum_orders(bootstrap_servers: str, topic: str, group: str | None = None) -> dict[str, int]:
    """Return what each customer has ordered until now; a group goes on where it was last time."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    partitions = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    totals: Counter[str] = Counter()
    while any(consumer.position(each) < end for each, end in ends.items()):
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                order = json.loads(record.value)
                totals[order["customer"]] += order["amount"]
    if group is not None:
        consumer.commit()
    consumer.close()
    return dict(totals)
