"""Work that is done once for all callers that wait for it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone.storage.directory.joint_work import JointWork
from tests.support.waiting import wait_until


class Slow:
    """Work that waits until it may go on, and fails if it is told to."""

    def __init__(self) -> None:
        self.times = 0
        self.error: OSError | None = None
        self.may_end = threading.Semaphore(0)

    def __call__(self) -> None:
        """Do it once."""
        self.times += 1
        self.may_end.acquire()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("is_failing", [False, True])
def test_those_that_wait_share_the_next_time(is_failing: bool) -> None:
    """Not the time that had begun when they came; what it raises, all of them raise."""
    work = Slow()
    joint = JointWork(work)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(joint.run)
        wait_until(lambda: work.times, "the first")
        later = [pool.submit(joint.run) for _ in range(4)]
        wait_until(lambda: joint.waiting, "the others", lambda count: count == 4)
        work.may_end.release()
        first.result()
        wait_until(lambda: work.times, "the second", lambda times: times == 2)
        work.error = OSError("full") if is_failing else None
        work.may_end.release()
        outcomes = [each.exception() for each in later]

    assert outcomes == [work.error] * 4
    assert work.times == 2
    work.error = None
    work.may_end.release()
    joint.run()
