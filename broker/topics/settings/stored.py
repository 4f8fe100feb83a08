"""Dynamic settings as the catalogue keeps them, under those that are given at the start."""

import logging
from collections.abc import Callable, Mapping

from siltstone.config.checks import ADVERTISED, advertising_faults
from siltstone.config.errors import ConfigError
from siltstone.config.layers import Layers
from siltstone.config.protection import check_stored
from siltstone.config.table import OBEYED
from siltstone.storage.directory.catalog import CatalogState

_logger = logging.getLogger(__name__)


def with_stored(layers: Layers, state: CatalogState) -> Layers:
    """Return the layers with the stored dynamic values.

    A value that is no longer valid is left out and logged: it must not stop a start.
    """
    if not state.cluster_configs and not state.broker_configs:
        return layers

    def try_cluster(values: Mapping[str, str]) -> None:
        check_stored(values)
        layers.with_dynamic(cluster=values)

    layers = layers.with_dynamic(cluster=keep_valid(state.cluster_configs, try_cluster))

    def try_broker(values: Mapping[str, str]) -> None:
        check_stored(values)
        changed = layers.with_dynamic(broker=values)
        if ADVERTISED in values:
            faults = [fault for _, fault in advertising_faults(changed.server())]
            if faults:
                raise ConfigError(faults)

    return layers.with_dynamic(broker=keep_valid(state.broker_configs, try_broker))


def keep_obeyed(found: Mapping[str, str], layers: Layers) -> dict[str, str]:
    """Return those of a topic's settings in Apache Kafka that are obeyed here, and valid."""
    return keep_valid({key: found[key] for key in found if key in OBEYED}, layers.topic)


def keep_valid(
    values: Mapping[str, str], check: Callable[[Mapping[str, str]], object]
) -> dict[str, str]:
    """Return the stored values that are still valid; log each of the others."""
    try:
        check(values)
    except ConfigError:
        return {name: value for name, value in values.items() if _is_valid({name: value}, check)}
    return dict(values)


def _is_valid(value: Mapping[str, str], check: Callable[[Mapping[str, str]], object]) -> bool:
    try:
        check(value)
    except ConfigError as error:
        _logger.error("stored setting is left out: %s", error)  # noqa: TRY400  # a value, not a fault
        return False
    return True
