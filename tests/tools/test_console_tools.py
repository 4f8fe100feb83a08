"""docs/tools.md is what the steps say, and steps that differ without a reason are refused."""

import pytest

from tools.console_tools import PAGE, Scene, Step, page, read_steps


def test_the_page_is_not_stale() -> None:
    """After a change of the steps run `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_steps_are_read() -> None:
    """A command with its input, its lines and its reason; a scene; a comment."""
    text = "# first\n$ kafka-x --y\n< in\n- theirs\n+ ours\nwhy since\n\n* members come\n"

    assert list(read_steps(text)) == [
        Step("kafka-x", "--y", ("in",), ("theirs",), ("ours",), "since"),
        Scene("members come"),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("$ kafka-x\n- theirs", "no line says why"),
        ("$ kafka-x\n? what", "begins with none of"),
        ("kafka-x", "neither a command"),
    ],
)
def test_faults_of_the_steps_are_told(text: str, fault: str) -> None:
    """With the command that they are in."""
    with pytest.raises(ValueError, match=fault) as raised:
        list(read_steps(text))
    assert "kafka-x" in str(raised.value)
