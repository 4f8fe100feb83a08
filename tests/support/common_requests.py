"""Requests that tests of many subjects send: logins, topics, addresses, ends of partitions."""

from typing import Any

from kio.schema.errors import ErrorCode

from tests.support.kio_messages import request
from tests.support.running import Caller, Running


def handshake(version: int = 1, mechanism: str = "PLAIN") -> Any:
    """Return a SaslHandshake."""
    return request(17, version, mechanism=mechanism)


def authenticate(token: bytes, version: int = 2) -> Any:
    """Return a SaslAuthenticate."""
    return request(36, version, auth_bytes=token)


async def enter(home: Running, user: str, password: str) -> Caller:
    """Return a connection that has logged in by PLAIN."""
    caller = await home.call()
    await caller.ask(handshake())
    answer = await caller.ask(authenticate(f"\0{user}\0{password}".encode()))
    assert answer.error_code is ErrorCode.none
    return caller


def software(name: str, of: str = "1") -> Any:
    """Return an ApiVersions with the name and version of the client's software."""
    return request(18, 3, client_software_name=name, client_software_version=of)


def metadata(*names: str, create: bool = False) -> Any:
    """Return a Metadata of some topics; without topics, of the brokers only."""
    topics = [{"name": name} for name in names]
    return request(3, 12, topics=topics, allow_auto_topic_creation=create)


def create_topics(
    *names: str, version: int = 7, partitions: int = 1, validate_only: bool = False, **settings: str
) -> Any:
    """Return a CreateTopics; an underscore in a setting's name is a dot."""
    configs = [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()]
    row = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
    topics = [row | {"name": name} for name in names]
    return request(19, version, topics=topics, timeout=5_000, validate_only=validate_only)


def list_offsets(timestamp: int = -1) -> Any:
    """Return a ListOffsets of partition 0 of "t", by default of its end."""
    row = {"partition_index": 0, "timestamp": timestamp}
    return request(2, 7, replica_id=-1, topics=[{"name": "t", "partitions": [row]}])
