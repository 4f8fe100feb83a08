"""Tests that the compiled core and its reference in plain Python both have to pass."""

from typing import Any

import pytest

NAMES = ("core", "reference")


def in_both_forms(name: str, core: Any, reference: Any) -> pytest.MarkDecorator:
    """Run a test with the core and with its reference."""
    return pytest.mark.parametrize(name, [core, reference], ids=NAMES)
