"""The wheel of this tree, less what git ignores, in plain Python; as an installer unpacks it."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from hatchling.build import build_sdist, build_wheel
build_wheel(sys.argv[1])
if sys.argv[2:] == ["--sdist"]:
    build_sdist(sys.argv[1])
"""


def copy_tree(target: Path) -> None:
    """Copy what git has or would take; links stay links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            place.symlink_to(source.readlink())
        elif source.is_file():
            place.write_bytes(source.read_bytes())


def build(
    tree: Path, folder: Path, *options: str, kernels: str = "off", path: Path | None = None
) -> None:
    """Build the wheel of a tree into a folder, and with ``--sdist`` the source archive.

    To compile ``kernels`` takes Cython, which is imported from ``path``.
    """
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder), *options],
        cwd=tree,
        check=True,
        env={
            "KERNELS": kernels,
            "PATH": "/usr/bin:/bin",
            **({} if path is None else {"PYTHONPATH": str(path)}),
        },
    )


def build_wheel(folder: Path) -> Path:
    """Return a wheel of this tree; what it was made from is in ``folder``, too."""
    tree = folder / "tree"
    copy_tree(tree)
    build(tree, folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(wheel: Path, site: Path) -> None:
    """Put a wheel's packages into a folder for the path."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def build_newer(folder: Path, version: str) -> Path:
    """Return a folder for the path: this tree as another version, as an installer unpacks it."""
    tree = folder / "tree"
    copy_tree(tree)
    for name, assignment in (("siltstone/__init__.py", "VERSION"), ("pyproject.toml", "version")):
        file = tree / name
        line = re.compile(rf'^{assignment} = "[^"]+"', re.MULTILINE)
        text, count = line.subn(f'{assignment} = "{version}"', file.read_text(encoding="utf-8"))
        assert count == 1, name
        file.write_text(text, encoding="utf-8")
    build(tree, folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    unpack(wheel, site)
    for parent, _, names in os.walk(ROOT / "siltstone", followlinks=True):
        for name in names:
            if name.endswith(".so"):  # what a builder would compile from the same sources
                compiled = Path(parent, name)
                shutil.copy(compiled, site / compiled.relative_to(ROOT))
    return site
