"""A setting: `key()` declares one as a dataclass field, and `Setting` describes it.

One attribute of `TopicConfig` or `ServerConfig` is one setting; Kafka's name is the attribute's
name with dots. A group of settings is a dataclass of its own: the larger dataclass has a field for
it with the metadata `PART`. Parsing, checks, descriptions and documents all come from the metadata
that `key()` attaches.
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
    """The types of Kafka's settings, with the codes in the answer to DescribeConfigs."""

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

    @property
    def is_sensitive(self) -> bool:
        """Whether a value of the kind is a secret, or may be one."""
        return self in (Kind.PASSWORD, Kind.UNKNOWN)


class Check(NamedTuple):
    """A rule for one value: a test, and the words that complete "must be"."""

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
    """Accept these words in lower or upper case."""
    lower = [word.lower() for word in words]
    return Check(lambda value: value.lower() in lower, f"one of {', '.join(words)}")


def some_of(*words: str) -> Check:
    """Accept lists of these words."""
    return Check(lambda value: set(value) <= set(words), f"a list of {', '.join(words)}")


NOT_EMPTY = Check(bool, "given and not empty")
UNLIMITED_OR_POSITIVE = Check(lambda value: value != 0, "-1 (no limit) or at least 1")


class Setting(NamedTuple):
    """One setting of the table, named as Kafka names it; see `key` for the meanings.

    ``part`` is the path of the field that holds the setting, such as ``security.tls``.
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
        """Return the value of this setting in a settings object, or in the part of one."""
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
        default: the value if nothing is set; its type gives the kind unless `kind` is given.
        documentation: its effect, with the unit if the name lacks it.
        kind: needed if the default is None; `long_key` declares 64-bit integers.
        check: refuse values that fail this check.
        advice: accept values that fail this check, with a warning.
        server: broker settings that give the value if this one is not set; the first that is set
            wins.
        server_check: the check of those broker settings, if it differs from `check`.
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
limit_key = partial(key, check=at_least(0), dynamic=True, ours=True)
"""Declares a limit of our own, which may be changed while the broker runs."""
long_limit_key = partial(limit_key, kind=Kind.LONG)
"""Declares such a limit that is a 64-bit integer."""


def _kind_of(default: object) -> Kind:
    """Return the kind of values like `default`."""
    if isinstance(default, bool):
        return Kind.BOOLEAN
    if isinstance(default, tuple):
        return Kind.LIST
    return {int: Kind.INT, float: Kind.DOUBLE, str: Kind.STRING}[type(default)]


def settings_of(config: Any) -> dict[str, Setting]:
    """Return the settings of a dataclass and its parts that `key()` declares, by Kafka's name."""
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
    """Create a dataclass and its parts from values by Kafka's name.

    ``others`` has the fields that are no settings.
    """
    for declared in fields(config):  # type: ignore[arg-type]  # each is a dataclass
        name = declared.name.replace("_", ".")
        if "is_part" in declared.metadata:
            held: Any = declared.default_factory
            others[declared.name] = make(held, values)
        elif name in values and "setting" in declared.metadata:
            others[declared.name] = values[name]
    return config(**others)
