"""Things that a machine may lack, how to get them, and the list of skipped tests.

With CI=true a skip is a failure, so that a missing tool cannot make a run green.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator

import pytest

REMEDIES = {
    "java": "a JDK of 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)",
    "mvn": "Maven and a Maven registry (Debian: apt-get install maven)",
    "kcat": "kcat (Debian: apt-get install kcat)",
    "buildah": "buildah and debootstrap (Debian: apt-get install buildah debootstrap), as root",
    "debootstrap": "debootstrap (Debian: apt-get install debootstrap)",
    "chromium": "Chromium (Debian: apt-get install chromium), or name one in CHROMIUM",
    "ip": "iproute2 (Debian: apt-get install iproute2)",
    "strace": "strace (Debian: apt-get install strace), and the right to trace (SYS_PTRACE)",
    "prometheus": "Prometheus (Debian: make prometheus, or apt-get install prometheus)",
    "promtool": "Prometheus (Debian: make prometheus, or apt-get install prometheus)",
    "systemd-analyze": "systemd (Debian: apt-get install systemd)",
    "schemas": "them beside the tests (make schemas)",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "root": "run as root, or leave it to CI",
    "sslscan": "sslscan (Debian: apt-get install sslscan)",
    "moto": "it beside the tests (make s3-server)",
    "grpc": "it beside the tests (make spark-connect)",
    "kernel-tools": "it beside the tests (make kernel-tools)",
    "mount": "a container that may mount (SYS_ADMIN), or leave it to CI",
}


def in_ci() -> bool:
    """Tell whether a skip is a failure here."""
    return os.environ.get("CI", "").lower() in {"true", "1"}


def require(program: str) -> str:
    """Return the path of a program, or skip the test for lack of it."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program}: not on the PATH")
    return found


def fail_skips_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skipped report into a failed one where CI asks for it."""
    if in_ci() and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"with CI=true a skip is a failure: {_reason(report)}"


def summary(skipped: list[pytest.TestReport]) -> Iterator[str]:
    """Yield one line per reason: how many tests it skipped and how to get what they need."""
    for reason, count in sorted(Counter(_reason(report) for report in skipped).items()):
        program = reason.partition(":")[0]
        remedy = f"; install {REMEDIES[program]}" if program in REMEDIES else ""
        yield f"{count} skipped: {reason}{remedy}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").splitlines()[0]
