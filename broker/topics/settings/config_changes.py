"""Changes of settings by IncrementalAlterConfigs (KIP-339), as functions of values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from siltstone.config.describe import ConfigRow
from siltstone.config.keys import Kind
from siltstone.protocol.errors import InvalidConfig, InvalidRequest


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType by its code on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = {each.value: each for each in Operation}


class Change(NamedTuple):
    """A change of one key of a resource."""

    name: str
    operation: Operation
    value: str | None


def check_changes(changes: Iterable[tuple[str, int, str | None]]) -> list[Change]:
    """Return changes from the name, code and value of each key.

    Raises:
        InvalidRequest: A key is named twice, an operation is unknown, or a value is missing.
    """
    checked: dict[str, Change] = {}
    for name, code, value in changes:
        operation = _OPERATIONS.get(code)
        if operation is None:
            raise InvalidRequest(f"{code} is no operation on {name}; 0 to 3 are")
        if name in checked:
            raise InvalidRequest(f"{name} is changed twice in one request")
        if value is None and operation is not Operation.DELETE:
            raise InvalidRequest(f"{name} has no value to {operation.name.lower()}")
        checked[name] = Change(name, operation, value)
    return list(checked.values())


def apply_changes(
    values: Mapping[str, str],
    changes: Iterable[Change],
    describe: Callable[[], Sequence[ConfigRow]],
) -> dict[str, str]:
    """Return the values after the changes.

    ``describe`` returns the types of settings, and the values of settings that were not given. It
    is called for lists only: to describe a resource costs more than to change it.

    Raises:
        InvalidConfig: A change appends to, or subtracts from, a setting that is no list.
    """
    changed = dict(values)
    for name, operation, value in changes:
        if operation is Operation.SET:
            changed[name] = value or ""
        elif operation is Operation.DELETE:
            changed.pop(name, None)
        else:
            row = next((each for each in describe() if each.name == name), None)
            if row is None or row.type is not Kind.LIST:
                raise InvalidConfig(
                    f"{name} is no list, nothing can be appended to it or subtracted from it"
                )
            items = dict.fromkeys(_items(changed.get(name, row.value)))
            for item in _items(value):
                if operation is Operation.APPEND:
                    items.setdefault(item)
                else:
                    items.pop(item, None)
            changed[name] = ",".join(items)
    return changed


def _items(text: str | None) -> list[str]:
    return list(dict.fromkeys(item.strip() for item in (text or "").split(",") if item.strip()))
