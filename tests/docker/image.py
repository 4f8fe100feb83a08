"""Builds the image without a container engine or a registry, and runs it (`make image-check`).

buildah builds the Dockerfile for real, on a stand-in for the public base image: Debian's minimal
system from the machine's own package source, made once. The image's entry point then runs as its
own user on a read-only root with one writable folder, without capabilities, in a network of its
own; a stock client makes a round trip, and SIGTERM ends it. Needs root on Debian.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BASE = "localhost/siltstone-check-base"
IMAGE = "localhost/siltstone-check"
NEEDED = {"buildah": "buildah", "debootstrap": "debootstrap", "ip": "iproute2"}
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
BUILDAH = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
DATA = "var/lib/siltstone"
BYTECODE = ("usr/lib/python3*/asyncio", "opt/siltstone/lib/python3*/site-packages/siltstone/broker")
# The root is bound over itself so that it can be made read-only, then the data folder into it.
ENTER = f"""
set -eu
root=$1 data=$2
shift 2
ip link set lo up
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$data" "$root/{DATA}"
mount -o remount,bind,ro "$root"
exec chroot --userspec=65534:65534 --groups= "$root" "$@"
"""
CLIENT = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
at = {"bootstrap.servers": "127.0.0.1:9092"}
first = int(sys.argv[1])
producer = Producer({**at, "compression.type": "zstd", "enable.idempotence": True})
for number in range(first, first + 100):
    producer.produce("checked", b"value %d" % number, partition=0)
assert producer.flush(20) == 0
consumer = Consumer({**at, "group.id": "unused", "auto.offset.reset": "error"})
consumer.assign([TopicPartition("checked", 0, 0)])
read = [consumer.poll(20).value() for _ in range(first + 100)]
assert read == [b"value %d" % number for number in range(first + 100)], read
"""
NOT_CHECKED = """\
not checked here: the public base image (its Python version and libc), other architectures, a
container engine's seccomp profile, its networking, volumes and health scheduling, compose.yaml
"""


def run(*command: str | Path, **environ: str) -> str:
    """Run a command and return its output; what it says on stderr is shown if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **BUILDAH, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"image-check: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def say(sentence: str) -> None:
    """Report a step."""
    print(f"image-check: {sentence}", flush=True)


def expect(fact: bool, sentence: str) -> None:
    """Report a fact that holds, or end with the one that does not."""
    if not fact:
        sys.exit(f"image-check: FAILED: {sentence}")
    say(f"ok: {sentence}")


def package_source() -> tuple[str, str]:
    """Return the address and the suite of the machine's own Debian packages."""
    for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        text = path.read_text()
        uris, suites = (
            re.search(r"^URIs: *(\S+)", text, re.MULTILINE),
            re.search(r"^Suites: *(\S+)", text, re.MULTILINE),
        )
        if uris and suites and uris[1].rstrip("/").endswith("debian"):
            return uris[1], suites[1]
    listed = Path("/etc/apt/sources.list")
    if listed.exists():
        for line in listed.read_text().splitlines():
            if match := re.match(r"deb (?:\[[^]]*] )?(\S+debian/?) (\S+) .*main", line):
                return match[1], match[2]
    sys.exit("image-check: no Debian package source in /etc/apt to make the base image from")


def make_base() -> None:
    """Make the stand-in for the base image, unless an earlier run did."""
    if BASE in run("buildah", "images", "--format", "{{.Name}}"):
        return
    say("making a stand-in for the base image with debootstrap (once)")
    address, suite = package_source()
    with tempfile.TemporaryDirectory() as scratch:
        packages = "--include=python3,python3-venv,ca-certificates"
        run("debootstrap", "--variant=minbase", packages, suite, scratch, address)
        for bytecode in Path(scratch, "usr/lib").rglob("*.pyc"):  # slim images have none either
            bytecode.unlink()
        container = run("buildah", "from", "scratch")
        run("buildah", "add", "--quiet", container, scratch, "/")
    # A network that needs the host's certificates needs them in the base, not in the Dockerfile.
    if (bundle := os.environ.get("SSL_CERT_FILE")) and Path(bundle).exists():
        run("buildah", "copy", "--quiet", container, bundle, BUNDLE)
        variables = ("--env", f"PIP_CERT={BUNDLE}", "--env", f"SSL_CERT_FILE={BUNDLE}")
        run("buildah", "config", *variables, container)
    run("buildah", "commit", "--quiet", container, BASE)
    run("buildah", "rm", container)


def build() -> dict[str, Any]:
    """Build the Dockerfile and return the image's settings."""
    say("building the Dockerfile")
    started = time.monotonic()
    run(
        "buildah", "bud", "--quiet", "--pull-never", "--format", "docker", "--layers",
        "--build-arg", f"BASE={BASE}", "--tag", IMAGE, ROOT,
    )  # fmt: skip
    say(f"built in {time.monotonic() - started:.0f} s")
    inspected = json.loads(run("buildah", "inspect", "--type", "image", IMAGE))
    settings: dict[str, Any] = inspected["Docker"]["config"]
    return settings


def check_settings(settings: dict[str, Any]) -> None:
    """Check what the image announces."""
    expect(settings["User"] == "65534:65534", "runs as nobody (65534)")
    expect(settings["Entrypoint"] == ["siltstone"], "entry point in exec form")
    expect(settings["StopSignal"] == "SIGTERM", "stops by SIGTERM")
    expect(
        settings["Healthcheck"]["Test"][:3] == ["CMD", "siltstone", "health"],
        "health check without a shell",
    )
    expect(set(settings["ExposedPorts"]) == {"9092/tcp", "9464/tcp"}, "exposes 9092 and 9464")
    expect(set(settings["Volumes"]) == {f"/{DATA}"}, f"keeps its data in /{DATA}")


class Running:
    """The image's own command in a container-like room."""

    def __init__(self, root: Path, data: Path, settings: dict[str, Any]) -> None:
        self.environ = settings["Env"]
        self.output = data.parent / "output"
        command = [*settings["Entrypoint"], *settings["Cmd"]]
        with self.output.open("ab") as sink:
            self.process = subprocess.Popen(
                [
                    "unshare", "--mount", "--net", "--propagation", "private",
                    "sh", "-c", ENTER, "sh", root, data,
                    "/usr/bin/env", "-i", f"--chdir=/{DATA}", *self.environ,
                    "/usr/bin/setpriv", "--no-new-privs", *command,
                ],
                stdout=sink, stderr=sink,
            )  # fmt: skip

    def inside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the image in the same room, as the same user."""
        return self._enter("--mount", "--root", "--wd", "--setuid=65534", "--setgid=65534",
                           "/usr/bin/env", "-i", *self.environ, *command)  # fmt: skip

    def beside(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of this machine in the same network."""
        return self._enter(*command)

    def healthy(self, check: Sequence[str], timeout: float) -> bool:
        """Wait until the image's own health check passes."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.inside(*check).returncode == 0:
                return True
            time.sleep(0.1)
        return False

    def status(self) -> dict[str, str]:
        """Return what the kernel says of the process."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def _enter(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["nsenter", "--target", str(self.process.pid), "--net", *words],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip


def check_running(running: Running, settings: dict[str, Any], first: int) -> None:
    """Check health, confinement and a stock client's round trip, then stop it."""
    try:
        healthy = running.healthy(settings["Healthcheck"]["Test"][1:], 30)
        expect(
            healthy,
            f"its health check passes\n{running.output.read_text() if not healthy else ''}".strip(),
        )
        status = running.status()
        expect(status["Uid"].split() == ["65534"] * 4, "the process has uid 65534")
        expect(int(status["CapEff"], 16) == 0, "it has no capabilities")
        expect(status["NoNewPrivs"] == "1", "it cannot gain privileges")
        refused = running.inside("/bin/touch", "/written")
        expect("Read-only" in refused.stderr, "its root is read-only")
        trip = running.beside(sys.executable, "-c", CLIENT, str(first))
        expect(
            trip.returncode == 0,
            f"confluent-kafka writes and reads {first + 100} records {trip.stderr}".strip(),
        )
        version = running.inside("siltstone", "version").stdout.strip()
        expect("compiled" in version, f"kernels are compiled ({' '.join(version.split())})")
    finally:
        if running.process.poll() is None:
            code = running.stop()
    expect(code == 0, "SIGTERM ends it with exit code 0")


def main() -> int:
    """Build, run, restart, and say what was not checked."""
    missing = [package for program, package in NEEDED.items() if not shutil.which(program)]
    if missing or os.geteuid():
        sys.exit(f"image-check: needs root and: apt-get install {' '.join(missing) or '(nothing)'}")
    make_base()
    settings = build()
    check_settings(settings)
    container = run("buildah", "from", "--pull-never", IMAGE)
    try:
        root = Path(run("buildah", "mount", container))
        size = run("du", "-sm", root / "opt/siltstone").split()[0]
        say(f"the layers above the base hold {size} MB")
        expect(not (root / "usr/bin/gcc").exists(), "no compiler in the image")
        expect(not (root / "opt/siltstone/bin/pip").exists(), "no pip in its virtualenv")
        expect(
            all(any(root.glob(f"{where}/__pycache__/*.pyc")) for where in BYTECODE),
            "bytecode of Python's library and of ours is there",
        )
        with tempfile.TemporaryDirectory() as scratch:
            data = Path(scratch) / "data"
            data.mkdir()
            os.chown(data, 65534, 65534)
            Path(scratch).chmod(0o755)
            check_running(Running(root, data, settings), settings, 0)
            expect((data / ".kafka_cleanshutdown").exists(), "it stopped cleanly")
            check_running(Running(root, data, settings), settings, 100)
    finally:
        run("buildah", "umount", container)
        run("buildah", "rm", container)
    print(NOT_CHECKED, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
