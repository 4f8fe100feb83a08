"""Faults to plant in the broker, each a patch in the folder `planted` beside this file.

`python -m tests.simulator.planted NAME -- COMMAND` runs a command in a copy of the product that has
the fault; without a name it lists all faults. A test that judges the broker must find each of them;
`python -m tests.simulator.planted --search [NAME...]` looks for the seed of a history that does.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import hatch_build

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("broker", "cleaner", "config", "pipeline", "protocol", "storage", "siltstone")
"""The folders that are copied; beside the copies are links to all else that the checkout has."""

_KERNEL_TOOLS: Final = ROOT / ".cache" / "kernel-tools"
_COMPILED: Final = ROOT / ".cache" / "planted"
_TOUCHED: Final = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)
_NEEDS: Final = "needs: "
_COMPILE: Final = """
import sys
from pathlib import Path
import hatch_build
hatch_build.KERNELS = tuple(sys.argv[2:])
hatch_build.compile_kernels(Path(sys.argv[1]))
"""


@dataclass(frozen=True, slots=True)
class Patch:
    """A fault: what is wrong, how a client sees it, and which steps and faults of the disk show it.

    ``files`` are the files of the product that it changes.
    """

    path: Path
    fault: str
    shows: str
    needs: str
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name by which it is asked for."""
        return self.path.stem

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the changed files that must be compiled, below ``siltstone``."""
        changed = (f"siltstone/{path}" for path in self.files)
        return tuple(path for path in changed if path in hatch_build.KERNELS)


def read_patch(path: Path) -> Patch:
    """Return the patch in a file.

    Raises:
        ValueError: The file does not begin with the three lines that tell what it is.
    """
    text = path.read_text()
    head = [line.removeprefix("# ") for line in text.splitlines()[:3] if line.startswith("# ")]
    if len(head) != 3 or not head[2].startswith(_NEEDS):  # fault, shows, needs
        raise ValueError(f"{path} does not begin with a fault, how it shows, and '# {_NEEDS}…'")
    return Patch(
        path, head[0], head[1], head[2].removeprefix(_NEEDS), tuple(_TOUCHED.findall(text))
    )


def read_patches(folder: Path) -> dict[str, Patch]:
    """Return the patches of a folder by name."""
    return {patch.name: patch for patch in map(read_patch, sorted(folder.glob("*.patch")))}


PLANTED: Final[Mapping[str, Patch]] = read_patches(Path(__file__).parent / "planted")


def copy_product(into: Path) -> None:
    """Copy what git has of the product; link what is compiled, and the rest of the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *PRODUCT, hatch_build.__name__ + ".py"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        place = into / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place, follow_symlinks=False)
    for kernel in hatch_build.KERNELS:
        name = _compiled_name(kernel).removeprefix("siltstone/")
        (into / name).symlink_to(ROOT / name)
    for other in ROOT.iterdir():
        if not (into / other.name).exists() and not other.name.startswith(".git"):
            (into / other.name).symlink_to(other)


def apply(patch: Patch, into: Path, *options: str) -> None:
    """Apply a patch to a copy, by ``git apply`` with these options.

    Raises:
        ValueError: It no longer fits; the text says where.
    """
    result = subprocess.run(
        ["git", "apply", *options, str(patch.path)],
        cwd=into,
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(into.parent)},
    )
    if result.returncode:
        reason = result.stderr.strip()
        raise ValueError(f"{patch.path} must be made again, README.md beside it says how: {reason}")


def applied(patch: Patch, into: Path) -> Path:
    """Copy the product into a new folder, plant the fault, and return the folder to be run.

    Run it with the folder as ``PYTHONPATH``. Changed kernels are compiled once for each content.

    Raises:
        ValueError: The patch no longer fits, or there is no Cython for a changed kernel.
        subprocess.CalledProcessError: A changed kernel does not compile.
    """
    into.mkdir(parents=True, exist_ok=True)
    copy_product(into)
    apply(patch, into)
    for kernel in patch.kernels:
        place = into / _compiled_name(kernel).removeprefix("siltstone/")
        place.unlink()
        place.symlink_to(_compile(into, kernel))
    return into


def environment(tree: Path, *more: Path) -> dict[str, str]:
    """Return the environment in which a process imports from a tree."""
    before = os.environ.get("PYTHONPATH")
    path = [str(tree), *map(str, more), *([before] if before else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _compiled_name(kernel: str) -> str:
    return f"{kernel.rpartition('.')[0]}{hatch_build.EXTENSION}"


def _compile(tree: Path, kernel: str) -> Path:
    """Return the extension of a kernel of a tree; one with the same content is taken again."""
    folder = _COMPILED / _digest(tree, (kernel, *hatch_build.DEPENDS, "hatch_build.py"))
    extension = folder / _compiled_name(kernel)
    if not extension.is_file():
        if not (_KERNEL_TOOLS / "Cython").is_dir() and find_spec("Cython") is None:
            raise ValueError(f"{kernel} is changed and must be compiled: run make kernel-tools")
        _COMPILED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_COMPILED) as scratch:
            subprocess.run(
                [sys.executable, "-c", _COMPILE, scratch, kernel],
                cwd=tree,
                check=True,
                env=environment(tree, _KERNEL_TOOLS),
            )
            extension.parent.mkdir(parents=True, exist_ok=True)
            (Path(scratch) / _compiled_name(kernel)).replace(extension)
    return extension


def _digest(tree: Path, paths: Iterable[str]) -> str:
    digest = hashlib.sha256(hatch_build.EXTENSION.encode())
    for path in paths:
        digest.update(path.encode() + b"\0" + (tree / path).read_bytes())
    return digest.hexdigest()[:16]


def _search(arguments: Sequence[str]) -> int:
    """Search for the faults that are named, or for all."""
    from tests.simulator import searching  # noqa: PLC0415  # it imports this module

    parser = argparse.ArgumentParser(prog="python -m tests.simulator.planted --search")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a fault; all without one")
    parser.add_argument("--seeds", type=int, default=5000, help="how many seeds of each (5000)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--from-zero", action="store_true", help="begin with seed 0, not as noted")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in PLANTED]
    if unknown:
        parser.error(f"no fault has the name {', '.join(unknown)}; without a name: list")
    return searching.main(
        options.names, PLANTED, options.seeds, options.processes, is_from_zero=options.from_zero
    )


def main(arguments: Sequence[str]) -> int:
    """Run a command in a copy with a fault, search for faults, or list them."""
    if not arguments:
        sys.stdout.writelines(f"{each.name}: {each.fault}\n" for each in PLANTED.values())
        return 0
    if arguments[0] == "--search":
        return _search(arguments[1:])
    name, *command = arguments
    if name not in PLANTED or command[:1] != ["--"] or not command[1:]:
        sys.stderr.write(
            "python -m tests.simulator.planted NAME -- COMMAND; without a name: list\n"
        )
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = applied(PLANTED[name], Path(folder))
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        return subprocess.run(command[1:], cwd=tree, check=False, env=environment(tree)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
