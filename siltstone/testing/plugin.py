"""The pytest fixtures: a broker for the session, and a topic for each test.

Pytest imports this module in every run if Siltstone is installed, so it imports very little.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from siltstone.testing.kafka import Kafka

_RUNNING: pytest.StashKey[Kafka] = pytest.StashKey()
_LOGGED: pytest.StashKey[int] = pytest.StashKey()
_MARKER = "kafka_topic"
_OPTIONS = {"partitions", "config"}
_SHOWN_LINES = 50


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(partitions=1, config={{}}): what the topic of the fixture {_MARKER} is like",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the size of the broker's log when a test begins."""
    running = item.config.stash.get(_RUNNING, None)
    item.stash[_LOGGED] = 0 if running is None else running.log_size


@pytest.hookimpl(hookwrapper=True)  # pytest 7 may have a pluggy that only knows this form
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add what the broker has logged during a test that failed to its report."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    running = item.config.stash.get(_RUNNING, None)
    if report.failed and running is not None and "kafka" in getattr(item, "fixturenames", ()):
        lines = running.log_behind(item.stash.get(_LOGGED, 0))
        shown = shorten(lines) or "(it logged nothing during this test)"
        report.sections.append(("Siltstone's log", shown))


def shorten(lines: Sequence[str]) -> str:
    """Return the last lines, as many as a report shows, and the number of lines before them."""
    left_out = len(lines) - _SHOWN_LINES
    said = [f"({left_out} lines before)"] if left_out > 0 else []
    return "\n".join([*said, *lines[-_SHOWN_LINES:]])


@pytest.fixture(scope="session")
def kafka_settings() -> Mapping[str, object]:
    """Kafka's settings for the broker of the fixture `kafka`; override this in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, kafka_settings: Mapping[str, object]) -> Iterator[Kafka]:
    """A Kafka broker for all tests, or for those of one worker; see `kafka.bootstrap_servers`.

    After each test that uses the broker, its state is restored: see `Kafka.restored`.
    """
    from siltstone.testing.errors import StartFailed  # noqa: PLC0415
    from siltstone.testing.kafka import broker  # noqa: PLC0415

    with ExitStack() as until_the_end:
        try:
            running = until_the_end.enter_context(broker(kafka_settings))
        except StartFailed as why:
            pytest.fail(str(why), pytrace=False)
        request.config.stash[_RUNNING] = running
        yield running
    del request.config.stash[_RUNNING]


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka: Kafka) -> str:
    """The name of a topic for this test alone, with the settings of the marker ``kafka_topic``."""
    marker = request.node.get_closest_marker(_MARKER)
    options = {} if marker is None else marker.kwargs
    if marker is not None and (marker.args or not options.keys() <= _OPTIONS):
        pytest.fail(
            f"the marker {_MARKER} takes {' and '.join(sorted(_OPTIONS))} by their names, as "
            f"{_MARKER}(partitions=3); write that at {request.node.nodeid}",
            pytrace=False,
        )
    from siltstone.testing.errors import AskedInVain  # noqa: PLC0415

    try:
        return kafka.create_topic(kafka.unique_name(request.node.name), **options)
    except AskedInVain as why:
        pytest.fail(f"{why}; see the marker {_MARKER} of {request.node.nodeid}", pytrace=False)


@pytest.fixture(autouse=True)
def _kafka_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Restore the broker's state after a test, once all other fixtures of the test have ended."""
    running = request.config.stash.get(_RUNNING, None)
    if running is None or "kafka" not in request.fixturenames:
        yield
        return
    with running.restored():
        yield
