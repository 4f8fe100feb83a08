"""Text and values, by Kafka's rules for each kind."""

import pytest

from siltstone.config.keys import Kind
from siltstone.config.values import parse, text_of


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, " TRUE ", True),
        (Kind.BOOLEAN, "false", False),
        (Kind.INT, "-2147483648", -(1 << 31)),
        (Kind.INT, "+7", 7),
        (Kind.SHORT, "32767", 32767),
        (Kind.LONG, "9223372036854775807", (1 << 63) - 1),
        (Kind.DOUBLE, "1.5e3", 1500.0),
        (Kind.LIST, " compact , delete ", ("compact", "delete")),
        (Kind.LIST, "", ()),
        (Kind.STRING, "  zstd ", "zstd"),
    ],
)
def test_parses(kind: Kind, text: str, value: object) -> None:
    """Values parse as Kafka parses them, white space around them does not count."""
    assert parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.BOOLEAN, "1"),
        (Kind.BOOLEAN, ""),
        (Kind.INT, "2147483648"),
        (Kind.INT, "1_000"),
        (Kind.INT, "1.0"),
        (Kind.INT, "0x10"),
        (Kind.INT, "٣"),
        (Kind.INT, ""),
        (Kind.INT, "9" * 5000),
        (Kind.SHORT, "32768"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.DOUBLE, "1_0"),
        (Kind.DOUBLE, "nan"),
        (Kind.DOUBLE, "half"),
    ],
)
def test_refuses(kind: Kind, text: str) -> None:
    """A text that Kafka does not take for a value of the kind is refused."""
    with pytest.raises(ValueError, match=r"true or false|a whole number from|a number"):
        parse(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e9, "1.0E9"),
        (1.5e-7, "1.5E-7"),
        (9_999_999.0, "9999999.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
    ],
)
def test_prints_doubles_as_java(value: float, text: str) -> None:
    """Doubles are printed with the digits of Java's Double.toString."""
    assert text_of(Kind.DOUBLE, value) == text


def test_prints_other_kinds() -> None:
    """Lists are joined by commas, booleans are lower case, nothing stays nothing."""
    assert text_of(Kind.LIST, ("compact", "delete")) == "compact,delete"
    assert text_of(Kind.LIST, ()) == ""
    assert text_of(Kind.BOOLEAN, False) == "false"
    assert text_of(Kind.LONG, -1) == "-1"
    assert text_of(Kind.STRING, None) is None
