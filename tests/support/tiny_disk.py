"""A broker process on a real file system of a few MiB, in a mount namespace of its own."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.missing import require

_MOUNT = 'mount -t tmpfs -o size={size} tmpfs "{path}" && echo mounted && exec sleep 3600'


class TinyDisk:
    """A tmpfs that only its own processes and `path` see; it ends with the test."""

    def __init__(self, root: Path, size: str) -> None:
        """Mount it, or skip the test where that is not allowed.

        ``size`` may be followed by other options of a tmpfs.
        """
        unshare, self._nsenter = require("unshare"), require("nsenter")
        setpriv = require("setpriv")
        if os.geteuid():
            pytest.skip("root: only root may mount")
        self.mountpoint = root / "tiny"
        self.mountpoint.mkdir()
        script = _MOUNT.format(size=size, path=self.mountpoint)
        self._keeper = subprocess.Popen(
            [setpriv, "--pdeathsig", "KILL", unshare, "--mount", "sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._keeper.stdout is not None
        said = self._keeper.stdout.readline()
        if said != b"mounted\n":
            self.close()
            pytest.skip(f"mount: not allowed here ({said.decode().strip()})")

    @property
    def path(self) -> Path:
        """Return where the test finds its files."""
        return Path(f"/proc/{self._keeper.pid}/root{self.mountpoint}")

    def fill(self, but: int = 0) -> None:
        """Fill the disk up to ``but`` bytes, with a file that `make_room` deletes."""
        with (self.path / "ballast").open("ab") as ballast:
            ballast.truncate(0)
            try:
                while True:
                    os.write(ballast.fileno(), bytes(1 << 16))
            except OSError:
                ballast.truncate(max(0, os.fstat(ballast.fileno()).st_size - but))

    def use_up_names(self) -> list[Path]:
        """Create empty files until no more can be created, and return them."""
        made: list[Path] = []
        with suppress(OSError):
            while True:
                name = self.path / f"name-{len(made)}"
                name.touch()
                made.append(name)
        return made

    def make_room(self) -> None:
        """Delete that file."""
        (self.path / "ballast").unlink()

    def enter(self, command: list[str]) -> list[str]:
        """Return the command that runs another one in the namespace of the disk."""
        return [self._nsenter, "--target", str(self._keeper.pid), "--mount", *command]

    def close(self) -> None:
        """Release the disk."""
        self._keeper.kill()
        self._keeper.communicate()


class SiltstoneOnDisk(SiltstoneProcess):
    """A broker whose data is on a tiny disk."""

    def __init__(self, root: Path, disk: TinyDisk, settings: dict[str, str]) -> None:
        super().__init__(root, settings)
        self.disk = disk
        self.folder = disk.mountpoint / "data"

    def command(self, *arguments: str) -> list[str]:
        """Return the command, to be run in the namespace of the disk."""
        return self.disk.enter(super().command(*arguments))
