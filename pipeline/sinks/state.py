"""The state of a table, kept in the commit that made it, and a check of its columns."""

import json
from dataclasses import asdict, dataclass, field
from typing import Self

import pyarrow as pa

from siltstone.pipeline.errors import BadOption

PROPERTY = "siltstone.state"
"""Its name among the properties of a commit."""


def described(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of a table as its state names them."""
    return tuple(f"{each.name} {each.type}" for each in schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """How much of a topic is in a table: ``offsets``, by partition, are exclusive.

    ``taken_at_ms`` is the moment that the table shows. An increment is right only while no
    tombstone written after it can be gone.
    """

    job: str
    topic: str
    topic_id: str
    cluster_id: str = ""
    """Empty if it is not known, as in states of earlier versions."""
    taken_at_ms: int
    key_scope: str
    columns: tuple[str, ...]
    offsets: dict[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of `to_json`.

        Raises:
            ValueError: The text is no state.
        """
        try:
            facts = json.loads(text)
            facts["offsets"] = {int(number): at for number, at in facts["offsets"].items()}
            facts["columns"] = tuple(facts["columns"])
            facts.setdefault("cluster_id", "")
            return cls(**{name: facts[name] for name in cls.__slots__})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"that is not the state of a snapshot table: {error!r}") from error


def check_columns(place: object, there: pa.Schema, wanted: pa.Schema) -> None:
    """Check that files of a schema fit those of a table, in any order of columns.

    Raises:
        BadOption: A column is missing on one side, or of another type.
    """
    old, new = _described(there), _described(wanted)
    if old != new:
        raise BadOption(
            f"the table {place} has other columns ({_differing(old, new)}) than this job writes "
            f"({_differing(new, old)}); name another table, or the same columns"
        )


def _described(schema: pa.Schema) -> dict[str, str]:
    """Return the type of each column; formats name the element of a list differently."""
    return {
        field.name: str(field.type).replace("large_", "").replace("<item:", "<element:")
        for field in schema
    }


def _differing(one: dict[str, str], other: dict[str, str]) -> str:
    fields = [f"{name} {kind}" for name, kind in one.items() if other.get(name) != kind]
    return ", ".join(fields) or "no more than those"
