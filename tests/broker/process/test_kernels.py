"""A start on plain Python that nobody has asked for says so, with what to do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from siltstone.protocol import core
from tests.support.running import running

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("is_compiled", "wanted", "count"), [(False, "auto", 1), (False, "off", 0), (True, "auto", 0)]
)
async def test_the_start_warns_where_nothing_could_be_compiled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_compiled: bool,
    wanted: str,
    count: int,
) -> None:
    """At the level of a warning; not where plain Python was asked for."""
    monkeypatch.setattr(core, "COMPILED", is_compiled)
    monkeypatch.setenv("SILTSTONE_KERNELS", wanted)
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path / "data"):
            pass

    told = [line for line in caplog.messages if "nothing is compiled" in line]
    assert len(told) == count
    assert all("install a C compiler" in each for each in told)
