"""Members of a group that a test polls itself, as librdkafka requires."""

from confluent_kafka import Consumer


def poll_assigned(member: Consumer) -> int:
    """Poll a member once, drop what it reads, and return how many partitions it has."""
    member.poll(0.02)
    return len(member.assignment())
