"""docs/rights.md is what the table of requirements says."""

from tools.rights import PAGE, page


def test_the_page_is_not_stale() -> None:
    """After a change of the table run `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page()
