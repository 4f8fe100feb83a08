"""Tests of what there is in two forms: compiled, and the plain Python that is its specification.

Where the compiled form is not there or not wanted the chosen one is plain, so it alone is tested.
"""

from typing import Any

import pytest

from siltstone.protocol import core

NAMES = ("chosen", "plain")[: 1 + core.COMPILED]


def in_both_forms(name: str, chosen: Any, plain: Any) -> pytest.MarkDecorator:
    """Run a test with the form that was chosen, and with the plain one if that is another."""
    return pytest.mark.parametrize(name, (chosen, plain)[: len(NAMES)], ids=NAMES)
