"""Work that a failing disk has refused, and an attempt at it that fails for another reason."""

import pytest

from siltstone.broker.process import again
from siltstone.broker.process.again import Again
from tests.support.waiting import equals, give_turns_until


async def test_an_attempt_that_raises_is_logged_once_and_made_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a fault of the broker would leave what was refused in place, without a word."""
    monkeypatch.setattr(again, "_PAUSE_SECONDS", 0.0)
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            raise ValueError("an attempt fails")
        work.end()

    work = Again("put it back", attempt)
    work.begin()
    await give_turns_until(lambda: work.is_due, "whether the work is due", equals(False))
    failures = [record for record in caplog.records if record.exc_info]

    assert attempts == 4
    assert len(failures) == 1
    assert "work='put it back'" in failures[0].getMessage()
