"""The manual pages are those that `make docs` writes."""

import shutil
import subprocess

import pytest

from tools.man_pages import FOLDER, _escaped, pages


def test_no_page_is_stale() -> None:
    """One for each command and one for all; none is left of a command that is gone."""
    written = {path.name: path.read_text() for path in FOLDER.iterdir()}

    assert written == pages(), "run make docs"


def test_text_stays_text() -> None:
    """Backslashes, dashes that are copied, and lines that roff would take for requests."""
    assert _escaped("-f '%v\\n'") == "\\-f '%v\\en'"
    assert _escaped(".nf") == "\\&.nf"


def test_what_may_be_left_out_is_in_brackets() -> None:
    """As usage has it; and names keep their capitals and are not broken."""
    found = pages()

    assert (
        "\n[OPTION ...] [list|describe|delete|reset] [GROUP ...]\n" in found["siltstone-groups.1"]
    )
    assert "\n[OPTION ...] TOPIC ...\n" in found["siltstone-consume.1"]
    assert "a Kafka broker" in found["siltstone.1"]
    assert all("\n.nh\n" in text for text in found.values())


@pytest.mark.parametrize("name", sorted(pages()))
def test_groff_finds_no_fault(name: str) -> None:
    """Where there is one."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff: not on the PATH")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-z", str(FOLDER / name)], capture_output=True, check=True
    )

    assert done.stderr == b""
