"""docs/compatibility.md is what the table and the handlers say."""

from tools.compatibility import PAGE, page


def test_the_page_is_not_stale() -> None:
    """After a change of the table or of a handler's head run `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == page()
