"""One line of a dump: facts as ``name=value``, or a fault."""

from base64 import b64encode
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from siltstone.protocol.names import uuid_text


class Line:
    """Facts in the order in which they were given."""

    __slots__ = ("_facts",)

    def __init__(self, **facts: object) -> None:
        self._facts = facts

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._facts.items())

    def as_json(self) -> dict[str, object]:
        """Return the facts by name, as `plain` values."""
        return {name: plain(value) for name, value in self._facts.items()}


class RecordLine(Line):
    """A record, below the line of its batch; ``means`` explains a record of the broker's own."""

    __slots__ = ("_means",)

    def __init__(
        self, facts: Mapping[str, object], means: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(**facts)
        self._means = means

    def __str__(self) -> str:
        means = {} if self._means is None else self._means
        said = "".join(f" {name}={value}" for name, value in means.items())
        return f"| {super().__str__()}{said}"

    def as_json(self) -> dict[str, object]:
        """Return the facts, and the record's meaning under its own name: both have offsets."""
        facts = super().as_json()
        return facts if self._means is None else {**facts, "means": plain(self._means)}


class Fault(Line):
    """A fault of the file."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def __str__(self) -> str:
        return f"FAULT {self.text}"

    def as_json(self) -> dict[str, object]:
        """Return what is wrong."""
        return {"fault": self.text}


def plain(value: object) -> object:  # noqa: PLR0911  # a kind of value a line
    """Return a value in the form of JSON; bytes that are not UTF-8 become ``{"base64": text}``."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    if isinstance(value, UUID):
        return uuid_text(value) if value.int else None
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(each) for name, each in value.items()}
    if isinstance(value, AbstractSet):
        return [plain(each) for each in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
