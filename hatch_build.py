"""Compiles the kernels when the project is built or installed; without them there is no build.

It uses the compiler that CC names, else the machine's own, else Zig's from the package index, and
prints which one. No compiler brings Python's headers: if they are missing, the build stops and says
what to install. An editable install gets the extensions beside their sources, a wheel gets them
inside and becomes platform-specific: for this machine, or for the platform that SILTSTONE_PLATFORM
names and CC compiles for. Wheel and source archive carry their commit, for `siltstone version`.
`python hatch_build.py` puts the extensions into the checkout; with `--compiler` it only prints the
compiler that it would use.
"""

import importlib.util
import json
import os
import runpy
import shlex
import shutil
import subprocess
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
CONSTANTS = (  # modules whose numbers C gets, too
    "siltstone/protocol/core/constants.py",
    "siltstone/protocol/messages/columns.py",
)


def find_kernels(root: Path) -> tuple[str, ...]:
    """Return the Cython sources to compile, in all packages."""
    return tuple(
        path.relative_to(root).as_posix()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.pyx"))
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
# These kernels loop over bytes and records in C. The others mostly call the interpreter: with -O1
# they are as fast as with -O3, and compile in less than half the time. The parser of a record is
# inlined into the cleaner's loops, which saves 7 % of the instructions.
LOOPS = {
    "siltstone/protocol/core/columns.pyx": ("-O3",),
    "siltstone/protocol/core/compaction.pyx": ("-O3", "-finline-limit=3000"),
    "siltstone/protocol/core/_records.pyx": ("-O3",),
}
EXTENSION = sysconfig.get_config_var("EXT_SUFFIX")
BUILT = "built.json"
"""The facts of a build, in the package of a wheel and at the top of a source archive."""
ZIG = "ziglang==0.17.1"
"""A C compiler in a wheel, for machines that have none."""
ZIG_FLAGS = "-mcpu=baseline"
"""As other compilers do: what is built runs on every processor of this kind."""
# The arithmetic of C may not depend on how the interpreter was compiled.
FLAGS = ("-g0", "-fwrapv")
SANITIZED = (
    "-O1", "-g", "-fno-wrapv", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
)  # fmt: skip
DIRECTIVES = {
    "annotation_typing": False,  # the types of C are declared
    "auto_pickle": False,  # no object is pickled; that code is a fifth of all C
    "binding": False,  # functions like those of C: a class of Cython's own is in every module else
    "boundscheck": False,
    "embedsignature": True,  # for `inspect` and help()
    "embedsignature.format": "clinic",
    "initializedcheck": False,
    "language_level": 3,
    "wraparound": False,
}


def write_constants(folder: Path) -> None:
    """Write the whole numbers of each module in `CONSTANTS` as an enum for C."""
    for path in CONSTANTS:
        named = runpy.run_path(str(ROOT / path))
        rows = [f"    {name} = {value}" for name, value in named.items() if type(value) is int]
        place = folder / Path(path).with_suffix(".pxi").name
        place.write_text("\n".join(["cdef enum:", *rows, ""]))


def flags_for(source: str) -> tuple[str, ...]:
    """Return the compiler flags for a kernel in a release."""
    return (*LOOPS.get(source, ("-O1",)), *FLAGS)


def find_compiler() -> str | None:
    """Return the command of this machine's C compiler, None if there is none."""
    if asked := os.environ.get("CC"):
        return asked
    usual = (sysconfig.get_config_var("CC") or "cc", "cc", "gcc", "clang")
    return next((each for each in usual if shutil.which(shlex.split(each)[0])), None)


def find_commit() -> str | None:
    """Return the commit of this tree: of its clone, or as its source archive says.

    SILTSTONE_COMMIT names it where neither is at hand, as in a container.
    """
    if asked := os.environ.get("SILTSTONE_COMMIT"):
        return asked
    if (ROOT / BUILT).is_file():
        found: str | None = json.loads((ROOT / BUILT).read_text(encoding="utf-8"))["commit"]
        return found
    commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain")
    return commit and commit + ("-changed" if changes else "")


def _git(*words: str) -> str | None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return None
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our words
    return done.stdout.strip() if done.returncode == 0 else None


def write_facts(folder: Path, platform: str | None) -> Path:
    """Write what `siltstone version` says of the build into a folder, and return the file."""
    file = folder / BUILT
    file.write_text(json.dumps({"commit": find_commit(), "platform": platform}) + "\n")
    return file


def check_headers() -> None:
    """Make sure that Python's headers are there.

    Raises:
        SystemExit: They are not; it says what to install.
    """
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SystemExit(
            f"siltstone: cannot be compiled, {folder} has no Python.h: install the development "
            f"package of this Python (Debian: apt-get install python{version}-dev), then build "
            "again"
        )


def choose_compiler() -> str:
    """Return the command to compile with, once Python's headers are there.

    Raises:
        SystemExit: They are not there, or there is no compiler.
    """
    check_headers()
    command = find_compiler()
    if command is not None:
        return command
    if importlib.util.find_spec("ziglang") is None:
        raise SystemExit(
            "siltstone: cannot be compiled, there is no C compiler: install one (Debian: apt-get "
            f"install gcc), or pip install {ZIG}, then build again"
        )
    return f"{shlex.quote(sys.executable)} -m ziglang cc {ZIG_FLAGS}"


def tell_compiler() -> str:
    """Return a line that names the compiler; raises as `choose_compiler` does."""
    check_headers()
    with_what = find_compiler() or f"Zig's C compiler from the package index ({ZIG})"
    return f"siltstone: compiling the kernels, once, with {with_what}\n"


def compile_kernels(
    target: Path, flags: Sequence[str] = (), link_flags: Sequence[str] = ()
) -> list[Path]:
    """Compile every kernel below `target`, laid out as the source is; return the files' paths.

    Without `flags` each kernel gets the flags of a release.
    """
    from Cython.Build import cythonize  # noqa: PLC0415 - a tool of the build alone
    from setuptools import (  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - as above
        Distribution,
        Extension,
    )

    os.environ["CC"] = choose_compiler()  # where setuptools looks
    if ZIG_FLAGS in os.environ["CC"]:
        os.environ["LDSHARED"] = f"{os.environ['CC']} -shared"

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
    ]  # the largest first, so that no large one is compiled alone at the end
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
    """Compile with the flags of a release, from any folder, and print the compiler."""
    sys.stderr.write(tell_compiler())
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return compile_kernels(target)
    finally:
        os.chdir(before)


def build_sanitized(target: Path) -> None:
    """Put extensions with sanitizers of memory and arithmetic below `target`, a copy of the source.

    Overflows of signed integers are reported as well, though a release lets them wrap around.
    """
    place = target.absolute()
    os.chdir(ROOT)
    compile_kernels(place, SANITIZED, ("-fsanitize=address,undefined",))


def build_in_place() -> list[Path]:
    """Put the extensions beside their sources; processes that run keep the old ones.

    If it fails, extensions of an older source are deleted: they would be used with this one. Those
    for other versions of Python stay.
    """
    placed = []
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".kernels-") as scratch:
        try:
            outputs = build(Path(scratch))
        except (Exception, SystemExit):
            for kernel in map(ROOT.joinpath, KERNELS):
                kernel.with_name(kernel.stem + EXTENSION).unlink(missing_ok=True)
            raise
        for output in outputs:
            place = ROOT / output.relative_to(scratch)
            output.replace(place)
            placed.append(place)
    return placed


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatchling's hook: fills a wheel, or the checkout of an editable install."""

    def dependencies(self) -> list[str]:
        """Return the packages that building a wheel needs: a compiler if the machine has none."""
        if self.target_name != "wheel" or find_compiler() is not None:
            return []
        check_headers()  # before anything large is fetched
        return [ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are gathered."""
        if version == "editable":
            build_in_place()
            return
        self._scratch = tempfile.TemporaryDirectory()
        scratch = Path(self._scratch.name)
        if self.target_name != "wheel":
            build_data["force_include"][str(write_facts(scratch, None))] = BUILT
            return
        platform = os.environ.get("SILTSTONE_PLATFORM")
        facts = write_facts(scratch, platform or sysconfig.get_platform())
        build_data["force_include"][str(facts)] = f"siltstone/{BUILT}"
        stubs = runpy.run_path(str(ROOT / "hatch_stubs.py"))
        for output in (*build(scratch), *stubs["write_stubs"](scratch)):
            inside = output.relative_to(self._scratch.name)
            build_data["force_include"][str(output)] = inside.as_posix()
        build_data["pure_python"] = False
        if platform is None:
            build_data["infer_tag"] = True
        else:
            python = f"cp{sys.version_info.major}{sys.version_info.minor}"
            build_data["tag"] = f"{python}-{python}-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's signature
        """Delete what was made for the archive."""
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sanitized"]:
        build_sanitized(Path(sys.argv[2]))
        sys.exit()
    if sys.argv[1:] == ["--compiler"]:
        sys.stderr.write(tell_compiler())
        sys.exit()
    for built in build_in_place():
        sys.stdout.write(f"{built.relative_to(ROOT)} ({sysconfig.get_platform()})\n")
