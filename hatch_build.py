"""Compiles the kernels when the project is built or installed.

KERNELS=auto (default) goes on in plain Python, and says so in a line, where there is no Cython or
no compiler; off does not try; require fails. pip and uv hide what a build says, so the start and
`siltstone doctor` say it again. An editable install gets the extensions beside their sources, a
wheel gets them inside and becomes platform-specific. `python hatch_build.py` puts them into the
checkout at hand.
"""

import os
import runpy
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run as a script in an environment that only has Cython
    BuildHookInterface = object  # type: ignore[assignment,misc]

ROOT = Path(__file__).parent
PACKAGES = ("siltstone/broker", "siltstone/protocol", "siltstone/storage")
CONSTANTS = (  # of Python, and so of C
    "siltstone/protocol/core/constants.py",
    "siltstone/protocol/messages/columns.py",
)


def find_kernels(root: Path) -> tuple[str, ...]:
    """Return what to compile: Cython, and Python that has its types of C in a `.pxd` beside it."""
    return tuple(
        path.relative_to(root).as_posix()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py*"))
        if path.suffix == ".pyx" or (path.suffix == ".py" and path.with_suffix(".pxd").is_file())
    )


def find_declarations(root: Path) -> tuple[str, ...]:
    """Return the files that kernels include, in all packages."""
    return tuple(
        path.relative_to(root).as_posix()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*"))
        if path.suffix in {".pxd", ".h"}
    )


KERNELS = find_kernels(ROOT)
DEPENDS = (*find_declarations(ROOT), *CONSTANTS)
HEADERS = tuple(dict.fromkeys(str(Path(path).parent) for path in DEPENDS if path.endswith(".h")))
# These loop over bytes and records in C. The others mostly call the interpreter, which no compiler
# sees into: there -O1 costs a request no more than -O3, and compiles in less than half the time.
# The cleaner's loops have the parser of a record inside: 7 % fewer instructions than by calls.
LOOPS = {
    "siltstone/protocol/core/_columns.pyx": ("-O3",),
    "siltstone/protocol/core/_compaction.pyx": ("-O3", "-finline-limit=3000"),
    "siltstone/protocol/core/_records.pyx": ("-O3",),
}
EXTENSION = sysconfig.get_config_var("EXT_SUFFIX")
# The arithmetic of C may not depend on how the interpreter was compiled.
FLAGS = ("-g0", "-fwrapv")
SANITIZED = (
    "-O1", "-g", "-fno-wrapv", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
)  # fmt: skip
DIRECTIVES = {
    "annotation_typing": False,  # the types of C stand in the .pxd
    "auto_pickle": False,  # nobody pickles one; the code for it is a fifth of all C
    "boundscheck": False,
    "initializedcheck": False,
    "language_level": 3,
    "wraparound": False,
}


def write_constants(folder: Path) -> None:
    """Write the whole numbers of each of `CONSTANTS` as an enum, for C to have the same list."""
    for path in CONSTANTS:
        named = runpy.run_path(str(ROOT / path))
        rows = [f"    {name} = {value}" for name, value in named.items() if type(value) is int]
        place = folder / Path(path).with_suffix(".pxi").name
        place.write_text("\n".join(["cdef enum:", *rows, ""]))


def flags_for(source: str) -> tuple[str, ...]:
    """Return how a release compiles a kernel."""
    return (*LOOPS.get(source, ("-O1",)), *FLAGS)


def compile_kernels(
    target: Path, flags: Sequence[str] = (), link_flags: Sequence[str] = ()
) -> list[Path]:
    """Compile every kernel below `target`, laid out as the source is; return the files' paths.

    Without `flags` each gets those of a release.
    """
    from Cython.Build import cythonize  # noqa: PLC0415 - may be missing
    from setuptools import (  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - as above
        Distribution,
        Extension,
    )

    extensions = [
        Extension(
            source.rpartition(".")[0].replace("/", "."),
            [source],
            include_dirs=list(HEADERS),
            extra_compile_args=list(flags or flags_for(source)),
            extra_link_args=list(link_flags),
            depends=list(DEPENDS),
        )
        for source in sorted(KERNELS, key=lambda source: -Path(source).stat().st_size)
    ]  # the largest first, so that no processor waits for one that began last
    with tempfile.TemporaryDirectory() as scratch:
        write_constants(Path(scratch))
        modules = cythonize(  # type: ignore[no-untyped-call,unused-ignore]
            extensions,
            build_dir=scratch,
            compiler_directives=DIRECTIVES,
            include_path=[scratch],
            nthreads=os.cpu_count() or 1,
            quiet=True,
        )
        command = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
        command.build_lib = str(target)
        command.build_temp = scratch
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
        return [Path(output) for output in command.get_outputs()]


def build(target: Path) -> list[Path]:
    """Compile as the variable KERNELS says; nothing is returned where it stays plain Python."""
    mode = os.environ.get("KERNELS", "auto")
    if mode not in {"auto", "off", "require"}:
        raise SystemExit(f"KERNELS={mode} is not known; use auto, off or require")
    if mode == "off":
        return []
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return compile_kernels(target)
    except (Exception, SystemExit) as error:
        if mode == "require":
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        sys.stderr.write(
            f"siltstone: NOTHING IS COMPILED ({reason}), and plain Python takes five to nine times "
            "as long for each record; install a C compiler and Python's headers (Debian: apt-get "
            "install gcc python3-dev), then build again\n"
        )
        return []
    finally:
        os.chdir(before)


def build_sanitized(target: Path) -> None:
    """Put extensions that report bad memory and bad numbers below `target`, a copy of the source.

    Sums that leave their type are reported as well, though the extensions of a release wrap them.
    """
    place = target.absolute()
    os.chdir(ROOT)
    compile_kernels(place, SANITIZED, ("-fsanitize=address,undefined",))


def build_in_place() -> list[Path]:
    """Put the extensions beside their sources; processes that run keep the old ones.

    Where none are made, those of an older source go: they would be taken for this one's. Those of
    other Pythons stay: their environments are made of them.
    """
    placed = []
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".kernels-") as scratch:
        for output in build(Path(scratch)):
            place = ROOT / output.relative_to(scratch)
            output.replace(place)
            placed.append(place)
    if not placed:
        for kernel in map(ROOT.joinpath, KERNELS):
            kernel.with_name(kernel.stem + EXTENSION).unlink(missing_ok=True)
    return placed


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling's hook: fills a wheel, or the checkout of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are gathered."""
        if self.target_name != "wheel":
            return
        if version == "editable":
            build_in_place()
            return
        self._scratch = tempfile.TemporaryDirectory()
        outputs = build(Path(self._scratch.name))
        for output in outputs:
            inside = output.relative_to(self._scratch.name)
            build_data["force_include"][str(output)] = inside.as_posix()
        if outputs:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's signature
        """Drop what was compiled for the wheel."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sanitized"]:
        build_sanitized(Path(sys.argv[2]))
        sys.exit()
    for built in build_in_place():
        sys.stdout.write(f"{built.relative_to(ROOT)} ({sysconfig.get_platform()})\n")
