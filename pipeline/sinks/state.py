"""The state of a table, kept in the commit that made it."""

import json
from dataclasses import asdict, dataclass, field
from typing import Self

import pyarrow as pa

PROPERTY = "siltstone.state"
"""Its name among the properties of a commit."""


def described(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of a table as its state names them."""
    return tuple(f"{each.name} {each.type}" for each in schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """How far a topic is in a table: ``offsets`` are exclusive, by partition.

    ``taken_at_ms`` is the moment that the table shows. An increment is right only while no
    tombstone written after it can be gone.
    """

    job: str
    topic: str
    topic_id: str
    taken_at_ms: int
    key_scope: str
    columns: tuple[str, ...]
    offsets: dict[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            ValueError: The text is no state.
        """
        try:
            facts = json.loads(text)
            facts["offsets"] = {int(number): at for number, at in facts["offsets"].items()}
            facts["columns"] = tuple(facts["columns"])
            return cls(**facts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"that is not the state of a snapshot table: {error!r}") from error
