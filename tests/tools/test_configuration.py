"""The documents that are made from the table."""

from pathlib import Path

from siltstone.config.load import load
from siltstone.config.table import SERVER, SYNONYMS
from tools.configuration import configuration_page, sample_file, write

ROOT = Path(__file__).parents[2]


def test_the_page_is_fresh() -> None:
    """docs/configuration.md is what the table makes; `python -m tools.configuration` renews it."""
    assert (ROOT / "docs/configuration.md").read_text("utf-8") == configuration_page()


def test_the_sample_is_fresh() -> None:
    """config/server.yaml is what the table makes; `python -m tools.configuration` renews it."""
    assert (ROOT / "config/server.yaml").read_text("utf-8") == sample_file()


def test_the_sample_sets_nothing() -> None:
    """A broker started with the sample has the defaults."""
    assert load(ROOT / "config/server.yaml", {}, []).static == {}


def test_the_sample_without_its_marks_is_the_defaults(tmp_path: Path) -> None:
    """Every line that sets something can be taken as it stands, and changes nothing."""
    lines = [line for line in sample_file().splitlines() if not line.startswith("# ")]
    shown = [line.removeprefix("#") for line in lines if not line.endswith(":")]
    file = tmp_path / "server.yaml"
    file.write_text("\n".join(shown), "utf-8")

    layers = load(file, {}, [])

    assert layers.server() == load(None, {}, []).server()
    assert layers.warnings == ()
    without_default = {line.strip("#:") for line in lines if line.endswith(":")}
    assert {*layers.static, *without_default} == {*SERVER, *SYNONYMS}


def test_writing_makes_both(tmp_path: Path) -> None:
    """The generator writes the page and the sample."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "config").mkdir()

    write(tmp_path)

    assert (tmp_path / "docs/configuration.md").read_text("utf-8") == configuration_page()
    assert (tmp_path / "config/server.yaml").read_text("utf-8") == sample_file()
