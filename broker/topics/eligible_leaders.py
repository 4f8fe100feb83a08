"""The meaning of ``eligible.leader.replicas.version`` 1 on one node (KIP-966).

A replica that leaves the set of replicas in sync may still be elected while the set is not smaller
than ``min.insync.replicas``. The only replica never leaves the set, so there are no such replicas
to name. But with this feature ``min.insync.replicas`` is a setting of the cluster, which can be
changed but not removed, and not of a single broker.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from siltstone.broker.topics.features import ELIGIBLE_LEADERS, Features
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.protocol.errors import InvalidConfig

_MIN_ISR: Final = "min.insync.replicas"
_DEFAULT: Final = "1"


def agree(features: Features, settings: BrokerSettings) -> None:
    """If the feature is on, set min.insync.replicas for the cluster, not for this broker."""
    if not features.level(ELIGIBLE_LEADERS):
        return
    layers = settings.layers
    given = layers.static.get(_MIN_ISR)
    settings.assume(
        cluster={_MIN_ISR: _DEFAULT if given is None else given.value, **layers.cluster},
        broker={name: value for name, value in layers.broker.items() if name != _MIN_ISR},
    )


def check_cluster(features: Features, own: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Refuse to remove the cluster's min.insync.replicas while ELR is on.

    Raises:
        InvalidConfig: The change removes it.
    """
    if features.level(ELIGIBLE_LEADERS) and _MIN_ISR in own and _MIN_ISR not in values:
        raise InvalidConfig(
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def check_broker(features: Features, changed: Iterable[str]) -> None:
    """Refuse a change of min.insync.replicas of a single broker while ELR is on.

    Raises:
        InvalidConfig: The change sets or removes the broker's value.
    """
    if features.level(ELIGIBLE_LEADERS) and _MIN_ISR in changed:
        raise InvalidConfig(
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
