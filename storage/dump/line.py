"""One line of a dump: facts as ``name=value``, or what is wrong."""


class Line:
    """Facts in the order they were given."""

    __slots__ = ("_facts",)

    def __init__(self, **facts: object) -> None:
        self._facts = facts

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._facts.items())

    def as_json(self) -> dict[str, object]:
        """Return the facts by name; what JSON does not know is text."""
        return {
            name: value if isinstance(value, str | int | float | bool | None) else str(value)
            for name, value in self._facts.items()
        }


class Fault(Line):
    """A fault of the file."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __str__(self) -> str:
        return f"FAULT {self._text}"

    def as_json(self) -> dict[str, object]:
        """Return what is wrong."""
        return {"fault": self._text}
