"""What `siltstone config` prints: every effective value of the broker, and where it comes from."""

from collections.abc import Iterator
from typing import Any

from siltstone.config.describe import ConfigRow, describe_broker
from siltstone.config.layers import Layers


def show(layers: Layers) -> Iterator[str]:
    """Yield a line for each setting, by name; secrets are left out."""
    for row in describe_broker(layers):
        yield f"{row.name} = {_shown(row)}  ({row.where})"


def show_as_json(layers: Layers) -> Iterator[dict[str, Any]]:
    """Yield each setting as JSON values, by name; secrets are left out."""
    for row in describe_broker(layers):
        yield {
            "name": row.name,
            "value": None if row.sensitive else row.value,
            "source": row.where,
            "default": row.default,
            "dynamic": not row.read_only,
            "hidden": row.sensitive,
        }


def _shown(row: ConfigRow) -> str:
    if row.sensitive:
        return "(hidden)"
    return "(none)" if row.value is None else row.value
