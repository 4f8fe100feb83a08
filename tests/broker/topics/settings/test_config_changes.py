"""IncrementalAlterConfigs as values: what a set of changes makes of a set of settings."""

from time import thread_time

import pytest

from siltstone.broker.topics.settings.config_changes import Operation, apply_changes, check_changes
from siltstone.config.describe import ConfigRow, describe_topic
from siltstone.config.layers import Layers
from siltstone.protocol.errors import InvalidConfig, InvalidRequest
from tests.support.turns import slowness

ROWS = describe_topic(Layers(), {})


@pytest.mark.parametrize(
    ("operation", "value", "before", "after"),
    [
        (Operation.SET, "compact", None, "compact"),
        (Operation.SET, "", "compact", ""),
        (Operation.DELETE, None, "compact", None),
        (Operation.DELETE, None, None, None),
        (Operation.APPEND, "compact", None, "delete,compact"),
        (Operation.APPEND, "compact", "compact", "compact"),
        (Operation.APPEND, "delete, compact", "compact", "compact,delete"),
        (Operation.SUBTRACT, "delete", "delete,compact", "compact"),
        (Operation.SUBTRACT, "delete", None, ""),
        (Operation.SUBTRACT, "compact", "delete", "delete"),
    ],
)
def test_one_change(
    operation: Operation, value: str | None, before: str | None, after: str | None
) -> None:
    """Lists grow and shrink from the value in force, the default included."""
    values = {"retention.ms": "1"} | ({} if before is None else {"cleanup.policy": before})
    changes = check_changes([("cleanup.policy", operation.value, value)])

    expected = {"retention.ms": "1"} | ({} if after is None else {"cleanup.policy": after})
    assert apply_changes(values, changes, lambda: ROWS) == expected


def test_what_is_set_or_deleted_needs_no_description() -> None:
    """Only a list is looked up: to describe a resource costs more than to change it."""
    changes = check_changes([("a", 0, "1"), ("b", 1, None)])

    def describe() -> list[ConfigRow]:
        raise AssertionError("nobody asked for a list")

    assert apply_changes({"b": "2"}, changes, describe) == {"a": "1"}


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "no.such.setting"])
def test_only_lists_grow_and_shrink(operation: Operation, name: str) -> None:
    """INVALID_CONFIG, as Kafka answers."""
    with pytest.raises(InvalidConfig, match=name):
        apply_changes({}, check_changes([(name, operation.value, "1")]), lambda: ROWS)


@pytest.mark.parametrize(
    "changes",
    [
        [("a", 0, "1"), ("a", 1, None)],
        [("a", 4, "1")],
        [("a", -1, "1")],
        [("a", 0, None)],
        [("a", 2, None)],
        [("a", 3, None)],
    ],
)
def test_contradictions_are_refused(changes: list[tuple[str, int, str | None]]) -> None:
    """INVALID_REQUEST before any value is looked at."""
    with pytest.raises(InvalidRequest):
        check_changes(changes)


def test_long_lists_are_changed_in_one_pass() -> None:
    """A value of 32 KB that is a list of thousands takes no time that anybody would notice."""
    many = ",".join(map(str, range(6_000)))
    values = {"cleanup.policy": many}
    began = thread_time()

    for operation, after in ((Operation.APPEND, many), (Operation.SUBTRACT, "")):
        changes = check_changes([("cleanup.policy", operation.value, many)])
        assert apply_changes(values, changes, lambda: ROWS) == {"cleanup.policy": after}

    assert thread_time() - began < 0.1 * slowness()
