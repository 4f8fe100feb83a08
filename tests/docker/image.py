"""The image, built without a container engine or a registry, and a room like a container's.

buildah builds the Dockerfile for real, on a stand-in for the public base image: Debian's minimal
system from the machine's own package source, made once. Needs root on Debian.
"""

import json
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon
from tests.support.programs import run_to_end
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
NEEDED = ("buildah", "debootstrap", "ip", "unshare", "nsenter")
BASE = "localhost/siltstone-check-base"
IMAGE = "localhost/siltstone-check"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
BUILDAH = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
DATA = "var/lib/siltstone"
USER = 65534
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
exec chroot --userspec={USER}:{USER} --groups= "$root" "$@"
"""

Settings = Mapping[str, Any]
Done = subprocess.CompletedProcess[str]


def build() -> Settings:
    """Build the Dockerfile and return the image's settings."""
    base = _make_base()
    _run(
        "buildah", "bud", "--quiet", "--pull-never", "--format", "docker", "--layers",
        "--build-arg", f"BASE={base}", "--tag", IMAGE, ROOT,
    )  # fmt: skip
    inspected = json.loads(_run("buildah", "inspect", "--type", "image", IMAGE))
    settings: Settings = inspected["Docker"]["config"]
    return settings


@contextmanager
def mounted() -> Iterator[Path]:
    """Give the image's files at a path of this machine."""
    container = _run("buildah", "from", "--pull-never", IMAGE)
    try:
        yield Path(_run("buildah", "mount", container))
    finally:
        _run("buildah", "umount", container)
        _run("buildah", "rm", container)


class Room:
    """The image's own command, as its own user, without capabilities.

    Its root is read-only but for one folder, and its network is its own.
    """

    def __init__(self, root: Path, data: Path, settings: Settings) -> None:
        self._root = root
        self._data = data
        self._settings = settings
        self.daemon = Daemon(data.parent / "output")

    def start(self) -> "Room":
        """Start it and return when the image's own health check passes."""
        self.daemon.launch([
            "unshare", "--mount", "--net", "--propagation", "private",
            "sh", "-c", ENTER, "sh", str(self._root), str(self._data),
            "/usr/bin/env", "-i", f"--chdir=/{DATA}", *self._settings["Env"],
            "/usr/bin/setpriv", "--pdeathsig=KILL", "--no-new-privs",
            *self._settings["Entrypoint"], *self._settings["Cmd"],
        ])  # fmt: skip
        check = self._settings["Healthcheck"]["Test"][1:]

        def ask() -> Done:
            assert self.daemon.running, self.daemon.printed()
            return self.inside(*check)

        wait_until(ask, "the image's own health check to pass", lambda done: done.returncode == 0)
        return self

    def inside(self, *command: str) -> Done:
        """Run a command of the image in the same room, as the same user."""
        return self._enter(
            "--mount", "--root", "--wd", f"--setuid={USER}", f"--setgid={USER}",
            "/usr/bin/env", "-i", *self._settings["Env"], *command,
        )  # fmt: skip

    def beside(self, *command: str) -> Done:
        """Run a command of this machine in the same network."""
        return self._enter(*command)

    def status(self) -> dict[str, str]:
        """Return what the kernel says of the process."""
        lines = Path(f"/proc/{self.daemon.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def close(self) -> None:
        """End it if it still runs."""
        if self.daemon.running:
            self.daemon.kill()

    def _enter(self, *words: str) -> Done:
        command = ["nsenter", "--target", str(self.daemon.pid), "--net", *words]
        return run_to_end(command)


def _run(*command: str | Path) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeError: it failed; with what it printed.
    """
    words: Sequence[str] = [str(word) for word in command]
    environ = {**os.environ, **BUILDAH}
    done = run_to_end(words, env=environ)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def _make_base() -> str:
    """Make the stand-in for the base image, unless an earlier run did, and return its name.

    A network that needs the host's certificates needs them in the base, not in the Dockerfile. The
    name says which they are: a base without them is of no use to a run that has them.
    """
    bundle = Path(os.environ.get("SSL_CERT_FILE") or BUNDLE)
    has_own = "SSL_CERT_FILE" in os.environ and bundle.exists()
    base = f"{BASE}-{zlib.crc32(bundle.read_bytes()):08x}" if has_own else BASE
    if base in _run("buildah", "images", "--format", "{{.Name}}").split():
        return base
    address, suite = _package_source()
    with tempfile.TemporaryDirectory() as scratch:
        packages = "--include=python3,python3-venv,ca-certificates"
        _run("debootstrap", "--variant=minbase", packages, suite, scratch, address)
        for bytecode in Path(scratch, "usr/lib").rglob("*.pyc"):  # slim images have none either
            bytecode.unlink()
        container = _run("buildah", "from", "scratch")
        _run("buildah", "add", "--quiet", container, scratch, "/")
    if has_own:
        _run("buildah", "copy", "--quiet", container, bundle, BUNDLE)
        variables = ("--env", f"PIP_CERT={BUNDLE}", "--env", f"SSL_CERT_FILE={BUNDLE}")
        _run("buildah", "config", *variables, container)
    _run("buildah", "commit", "--quiet", container, base)
    _run("buildah", "rm", container)
    return base


def _package_source() -> tuple[str, str]:
    """Return the address and the suite of the machine's own Debian packages.

    Raises:
        LookupError: it names none.
    """
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
    raise LookupError("/etc/apt names no source of Debian packages to make the base image from")
