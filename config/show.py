"""What `siltstone config` prints: every effective value of the broker, and where it comes from."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from siltstone.config.describe import ConfigRow, describe_broker
from siltstone.config.layers import Layers


def show(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each setting of `show_as_json`."""
    for row in rows:
        value = "(none)" if row["value"] is None else row["value"]
        yield f"{row['name']} = {'(hidden)' if row['hidden'] else value}  ({row['source']})"


def show_as_json(layers: Layers) -> Iterator[dict[str, Any]]:
    """Yield each setting as JSON values, by name; secrets are left out."""
    yield from map(as_json, describe_broker(layers))


def as_json(row: ConfigRow) -> dict[str, Any]:
    """Return a setting as JSON values, a secret without its value."""
    return {
        "name": row.name,
        "value": None if row.sensitive else row.value,
        "source": row.where,
        "default": row.default,
        "dynamic": not row.read_only,
        "hidden": row.sensitive,
    }
