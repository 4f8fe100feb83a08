"""The meaning of ``eligible.leader.replicas.version`` 1 on one node (KIP-966).

A replica that leaves the set of those in sync may still be elected while the set is not smaller
than ``min.insync.replicas``. The only replica never leaves it, so there are no others to name. But
all brokers have to agree on that setting: it has a value for all of them, which can be changed and
not removed, and none for a single one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.topics.features import ELIGIBLE_LEADERS
from siltstone.protocol.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from siltstone.broker.topics.features import Features
    from siltstone.broker.topics.settings.in_force import BrokerSettings

_MIN_ISR: Final = "min.insync.replicas"
_DEFAULT: Final = "1"


def agree(features: Features, settings: BrokerSettings) -> None:
    """Give all brokers the value that counts, and a single one none, if the feature is on."""
    if not features.level(ELIGIBLE_LEADERS):
        return
    layers = settings.layers
    given = layers.static.get(_MIN_ISR)
    settings.assume(
        cluster={_MIN_ISR: _DEFAULT if given is None else given.value, **layers.cluster},
        broker={name: value for name, value in layers.broker.items() if name != _MIN_ISR},
    )


def check_cluster(features: Features, own: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Refuse to remove min.insync.replicas of the cluster while ELR is on.

    Raises:
        InvalidConfig: The change removes it.
    """
    if features.level(ELIGIBLE_LEADERS) and _MIN_ISR in own and _MIN_ISR not in values:
        raise InvalidConfig(
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def check_broker(features: Features, changed: Iterable[str]) -> None:
    """Refuse a value of min.insync.replicas of one broker while ELR is on.

    Raises:
        InvalidConfig: The change sets or removes one.
    """
    if features.level(ELIGIBLE_LEADERS) and _MIN_ISR in changed:
        raise InvalidConfig(
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
