"""A broker for users' tests: a real broker in a process of its own, ready in half a second.

With pytest the fixtures exist as soon as Siltstone is installed (`kafka`, `kafka_topic`); with
anything else::

    with siltstone.testing.broker() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

This package has the objects by which a test controls a broker. The broker's side of that is in
`broker.process.trial`. Every run of pytest imports this package for the plugin in it, so a name is
imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siltstone.testing.asynchronous import AsyncKafka, async_broker
    from siltstone.testing.errors import AskedInVain, Refused, StartFailed
    from siltstone.testing.kafka import Kafka, KafkaClock, broker

__all__ = [
    "AskedInVain",
    "AsyncKafka",
    "Kafka",
    "KafkaClock",
    "Refused",
    "StartFailed",
    "async_broker",
    "broker",
]


def __getattr__(name: str) -> Any:
    """Return a public name, which is imported now."""
    if name in __all__:
        for module in ("errors", "kafka", "asynchronous"):
            found = vars(importlib.import_module(f"{__name__}.{module}")).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
