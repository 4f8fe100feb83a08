"""Log lines for a collector: what is a field, and what is said in words."""

import json
import logging
import math
import re
import subprocess
import sys
from typing import Any

import pytest

from siltstone.broker.process.logs import ConsoleLines, JsonLines, Shortened, split_fields


def record(template: object, *values: object) -> logging.LogRecord:
    """Return what the logging of a template makes."""
    return logging.LogRecord("a", logging.INFO, "a.py", 1, template, values, None)


@pytest.mark.parametrize(
    ("template", "values", "message", "fields"),
    [
        (
            "cleaned partition=%s from=%d seconds=%.2f",
            ("a-0", 7, 0.123),
            "cleaned",
            {"partition": "a-0", "from": 7, "seconds": 0.12},
        ),
        ("listening address=%s:%d", ("::1", 9), "listening", {"address": "::1:9"}),
        (
            "dropped partition=%s count=%d: they were old",
            ("a-0", 5),
            "dropped: they were old",
            {"partition": "a-0", "count": 5},
        ),
        ("pin holder=%r left", ("me",), "pin left", {"holder": "me"}),
        (
            "refused client=%r reason=it is short; set x.y=PLAIN in it peer=%s",
            ("c", "1.2.3.4"),
            "refused",
            {"client": "c", "reason": "it is short; set x.y=PLAIN in it", "peer": "1.2.3.4"},
        ),
        ("fenced reason=it %s", ("went",), "fenced", {"reason": "it went"}),
        ("refused peer=%s %s", ("p", "a b=c"), "refused a b=c", {"peer": "p"}),
        ("100%% of x=%s", (None,), "100% of", {"x": None}),
        ("limit bytes=%g", (math.inf,), "limit", {"bytes": "inf"}),
        ("%s", ("name=value",), "name=value", {}),
        ("a=b is a word", (), "a=b is a word", {}),
        ("50% done x=1", (), "50% done x=1", {}),
        ("by name %(x)s k=%(x)s", ({"x": 1},), "by name 1 k=1", {}),
        (ValueError("k=v"), (), "k=v", {}),
    ],
)
def test_the_template_tells_fields_from_words(
    template: object, values: tuple[object, ...], message: str, fields: dict[str, Any]
) -> None:
    """Numbers stay numbers; nothing within a value is taken for a field."""
    assert split_fields(record(template, *values)) == (message, fields)


def test_a_line_is_an_object() -> None:
    """With the words and the fields apart."""
    line = json.loads(JsonLines().format(record("topic created topic=%s partitions=%d", "a", 3)))

    assert line["message"] == "topic created"
    assert line["fields"] == {"topic": "a", "partitions": 3}


def test_what_was_cut_has_no_fields() -> None:
    """Its template is gone, and the text may be a client's."""
    cut = record("refused client=%s", "x admin=true " * 1000)
    Shortened().filter(cut)

    assert split_fields(cut)[1] == {}


FORGED = (
    "x\r\n1999-01-01T02:59:59.999Z INFO siltstone.audit {}\x1b]0;owned\x07\x85\u2028\u202e\ud800"
)
"""Text of a client that would make lines, and be obeyed by a terminal."""


def test_text_of_a_client_makes_no_line_and_no_escape() -> None:
    """On the console each control character of it is spelled, so that the line stays one."""
    line = ConsoleLines().format(record("member is silent group=%s", FORGED))

    assert line.isprintable()
    assert line.endswith(
        r" member is silent group=x\r\n1999-01-01T02:59:59.999Z INFO siltstone.audit {}"
        r"\x1b]0;owned\x07\x85\u2028\u202e\ud800"
    )


@pytest.mark.parametrize("form", [ConsoleLines(), JsonLines()])
def test_a_traceback_forges_nothing(form: logging.Formatter) -> None:
    """The text of an exception begins no line, nor does a name within the stack."""
    error = ValueError(FORGED)
    made = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed", (), (ValueError, error, None))
    made.stack_info = f"Stack:\n{FORGED}"

    head, *rest = form.format(made).split("\n")

    assert "failed" in head
    assert all(each.isprintable() and each.startswith("    ") for each in (head, *rest)[1:])
    assert not re.search("^1999-01-01", "\n".join((head, *rest)), re.MULTILINE)


@pytest.mark.parametrize("style", ["console", "json"])
def test_what_ends_a_thread_or_the_program_is_a_line(style: str) -> None:
    """Python's own tracebacks would quote a client past the formatter, and be no JSON."""
    program = (
        "import sys, threading\n"
        "from siltstone.broker.process.logs import configure\n"
        f"forged = {FORGED!r}\n"
        "class Fails:\n"
        "    def __init__(self, text): self.text = text\n"
        "    def __call__(self): raise ValueError(self.text)\n"
        "    def __del__(self): raise ValueError(self.text)\n"
        f"configure({style!r}, 'info')\n"
        "fails = Fails(forged)\n"
        "thread = threading.Thread(target=fails, name=forged)\n"
        "thread.start()\n"
        "thread.join()\n"
        "del thread, fails\n"
        "Fails.__del__ = object.__init__\n"
        "Fails(forged)()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    lines = done.stderr.decode().removesuffix("\n").split("\n")

    assert done.returncode == 1
    if style == "json":
        first, _, last = (json.loads(line)["message"] for line in lines)
        assert (first, last) == ("thread failed", "the program failed")
    else:
        assert all(line.isprintable() for line in lines)
        begun = [line for line in lines if not line.startswith("    ")]
        assert len(begun) == 3
        assert all(re.match(r"20\d\d-.* siltstone\.broker\.process\.logs ", line) for line in begun)


def test_what_is_legible_stays() -> None:
    """Letters of every script, quotes and backslashes are written as they are."""
    line = ConsoleLines().format(record("pin holder=%s", r'für 日本 "a\b"'))

    assert line.endswith(r' pin holder=für 日本 "a\b"')
