"""A setting: `key()` declares one as a dataclass field, and `Setting` describes it.

One attribute of `TopicConfig` or `ServerConfig` is one setting; Kafka's name is the attribute with
dots. A group of settings is a dataclass of its own, a field of the larger one with the metadata
`PART`. Parsing, checks, descriptions and documents all come from the metadata that `key()`
attaches.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from enum import IntEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

PART: Final = {"is_part": True}
"""The metadata of a field that holds a group of settings; its default factory is their class."""


class Kind(IntEnum):
    """The types of Kafka's settings, by the codes that DescribeConfigs answers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Check(NamedTuple):
    """A rule for one value: whether it holds, and the words after "must be"."""

    holds: Callable[[Any], bool]
    words: str


def at_least(low: float) -> Check:
    """Accept numbers from `low`, inclusive."""
    return Check(lambda value: value >= low, f"at least {low}")


def between(low: float, high: float) -> Check:
    """Accept numbers from `low` to `high`, both inclusive."""
    return Check(lambda value: low <= value <= high, f"from {low} to {high}")


def between_or(low: int, high: int, other: int) -> Check:
    """Accept numbers from `low` to `high`, both inclusive, and `other`."""
    return Check(
        lambda value: value == other or low <= value <= high, f"from {low} to {high}, or {other}"
    )


def one_of(*words: str) -> Check:
    """Accept exactly these words."""
    return Check(lambda value: value in words, f"one of {', '.join(words)}")


def one_of_any_case(*words: str) -> Check:
    """Accept these words, written in capitals or not."""
    lower = [word.lower() for word in words]
    return Check(lambda value: value.lower() in lower, f"one of {', '.join(words)}")


def some_of(*words: str) -> Check:
    """Accept lists of these words."""
    return Check(lambda value: set(value) <= set(words), f"a list of {', '.join(words)}")


NOT_EMPTY = Check(bool, "given and not empty")
UNLIMITED_OR_POSITIVE = Check(lambda value: value != 0, "-1 (no limit) or at least 1")


class Setting(NamedTuple):
    """One setting of the table, named as Kafka names it; see `key` for the meanings.

    ``part`` is where it stands in what holds it, as ``security.tls``.
    """

    name: str
    attribute: str
    kind: Kind
    default: Any
    documentation: str
    check: Check | None = None
    advice: Check | None = None
    synonyms: tuple[str, ...] = ()
    synonym_check: Check | None = None
    dynamic: bool = False
    ours: bool = False
    part: str = ""

    def value_in(self, config: Any) -> Any:
        """Return its value in the settings that declare it, or hold what does."""
        return attrgetter(f"{self.part}.{self.attribute}" if self.part else self.attribute)(config)


def key(  # noqa: PLR0913 - a declaration names what it needs, once per setting
    default: T,
    documentation: str,
    *,
    kind: Kind | None = None,
    check: Check | None = None,
    advice: Check | None = None,
    server: str | tuple[str, ...] = (),
    server_check: Check | None = None,
    dynamic: bool = False,
    ours: bool = False,
) -> T:
    """Declare one setting as a dataclass field.

    Args:
        default: the value where nothing is set; its type gives the kind unless `kind` does.
        documentation: its effect, with the unit where the name lacks it.
        kind: needed where the default is None; `long_key` declares 64-bit integers.
        check: refuse other values.
        advice: take other values, with a warning.
        server: other broker settings that give the value when this one is not set, the first wins.
        server_check: the check of those settings where it differs from `check`.
        dynamic: the running broker applies a change at once.
        ours: Kafka has no such setting.
    """
    setting = Setting(
        name="",
        attribute="",
        kind=kind if kind is not None else _kind_of(default),
        default=default,
        documentation=documentation,
        check=check,
        advice=advice,
        synonyms=(server,) if isinstance(server, str) else server,
        synonym_check=server_check or check,
        dynamic=dynamic,
        ours=ours,
    )
    is_secret = setting.kind is Kind.PASSWORD
    return field(default=default, repr=not is_secret, metadata={"setting": setting})


long_key = partial(key, kind=Kind.LONG)
"""Declares a setting that is a 64-bit integer."""


def _kind_of(default: object) -> Kind:
    """Return the kind that values like `default` have."""
    if isinstance(default, bool):
        return Kind.BOOLEAN
    if isinstance(default, tuple):
        return Kind.LIST
    return {int: Kind.INT, float: Kind.DOUBLE, str: Kind.STRING}[type(default)]


def settings_of(config: Any) -> dict[str, Setting]:
    """Return the settings that a dataclass and its parts declare by `key()`, by Kafka's name."""
    settings = {}
    for declared in fields(config):
        setting: Setting | None = declared.metadata.get("setting")
        if "is_part" in declared.metadata:
            for name, each in settings_of(declared.default_factory).items():
                where = f"{declared.name}.{each.part}" if each.part else declared.name
                settings[name] = each._replace(part=where)
        elif setting is not None:
            name = declared.name.replace("_", ".")
            settings[name] = setting._replace(name=name, attribute=declared.name)
    return settings


def make(config: type[T], values: Mapping[str, Any], **others: Any) -> T:
    """Make a dataclass and its parts of the values that are given, by Kafka's name.

    ``others`` are fields that are no settings.
    """
    for declared in fields(config):  # type: ignore[arg-type]  # each is a dataclass
        name = declared.name.replace("_", ".")
        if "is_part" in declared.metadata:
            held: Any = declared.default_factory
            others[declared.name] = make(held, values)
        elif name in values and "setting" in declared.metadata:
            others[declared.name] = values[name]
    return config(**others)
