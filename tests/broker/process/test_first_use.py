"""Parts that are built when something first needs them."""

import sys
import threading

from siltstone.broker.process.first_use import OnFirstUse


def test_it_is_built_once_and_not_before() -> None:
    """A look at ``built`` builds nothing."""
    made: list[list[str]] = []

    def build() -> list[str]:
        made.append(["part"])
        return made[-1]

    part = OnFirstUse(build)
    before = part.built, len(made)
    first = part.get()

    assert before == (None, 0)
    assert part.get() is first
    assert part.built is first
    assert len(made) == 1


def test_threads_that_need_it_at_once_get_one() -> None:
    """The second waits for what the first builds."""
    building, go_on = threading.Event(), threading.Event()
    made: list[list[str]] = []

    def build() -> list[str]:
        building.set()
        assert go_on.wait(60)
        made.append(["part"])
        return made[-1]

    part = OnFirstUse(build)
    got: list[list[str]] = []
    threads = [threading.Thread(target=lambda: got.append(part.get())) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert building.wait(60)
    go_on.set()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert [each is made[0] for each in got] == [True, True]


def test_preload_imports_step_by_step_and_builds_last() -> None:
    """Each step is one module, so that others are served in between."""
    names = ("chunk_of_nothing", "wave_of_nothing")
    sys.modules |= dict.fromkeys(names, sys)
    part = OnFirstUse(lambda: ["part"], names)

    try:
        steps = [part.built for _ in part.preload()]
    finally:
        for name in names:
            del sys.modules[name]

    assert steps == [None, None]
    assert part.built == ["part"]
