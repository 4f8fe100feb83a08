"""The wheel of this tree, less what git ignores; as an installer unpacks it.

Compiling takes a minute, so the kernels that the checkout has compiled are used.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.programs import run_to_end

ROOT = Path(__file__).parents[2]
BUILD = """
import shutil, sys
from pathlib import Path
from hatchling.builders.hooks import custom
from hatchling.build import build_sdist, build_wheel

load, compiled = custom.load_plugin_from_script, Path(sys.argv[2])

def load_without_compiler(*arguments):
    hook = load(*arguments)
    names = hook.initialize.__globals__

    def copy_compiled(target):
        outputs = []
        for kernel in names["KERNELS"]:
            name = kernel.rpartition(".")[0] + names["EXTENSION"]
            outputs.append(target / name)
            outputs[-1].parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(compiled / name, outputs[-1])
        return outputs

    names["compile_kernels"] = copy_compiled
    return hook

if compiled.is_dir():
    custom.load_plugin_from_script = load_without_compiler
build_wheel(sys.argv[1])
if "--sdist" in sys.argv:
    build_sdist(sys.argv[1])
"""


def copy_tree(target: Path) -> None:
    """Copy what git has or would take; links stay links."""
    listed = run_to_end(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            place.symlink_to(source.readlink())
        elif source.is_file():
            place.write_bytes(source.read_bytes())


def build(tree: Path, folder: Path, *options: str, cython: Path | None = None) -> None:
    """Build the wheel of a tree into a folder, and with ``--sdist`` the source archive.

    With ``cython``, the folder to import it from, the kernels are compiled.
    """
    compiled = ROOT if cython is None else os.devnull
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder), str(compiled), *options],
        cwd=tree,
        check=True,
        env={"PATH": "/usr/bin:/bin", **({} if cython is None else {"PYTHONPATH": str(cython)})},
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
    file = tree / "siltstone" / "__init__.py"
    line = re.compile(r'^VERSION = "[^"]+"', re.MULTILINE)
    text, count = line.subn(f'VERSION = "{version}"', file.read_text(encoding="utf-8"))
    assert count == 1
    file.write_text(text, encoding="utf-8")
    build(tree, folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    unpack(wheel, site)
    return site
