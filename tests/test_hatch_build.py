"""The build of the kernels: with which compiler, and what stops it."""

import importlib.util
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hatch_build
from siltstone.protocol.core import constants
from siltstone.protocol.messages import columns
from tests.support.programs import run_to_end


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a C compiler."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def make_hook(target: str) -> hatch_build.KernelHook:
    """Return the hook as hatchling makes it for a wheel or a source archive."""
    unused: Any = None
    return hatch_build.KernelHook(str(hatch_build.ROOT), {}, unused, unused, "", target)


def fail(target: Path) -> list[Path]:
    """Stand for a source that does not compile."""
    raise OSError(f"no kernel below {target}")


def test_a_compiler_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch, bare: None) -> None:
    """Whatever else there is; the line says it."""
    monkeypatch.setenv("CC", "ccache gcc-14")

    assert hatch_build.choose_compiler() == "ccache gcc-14"
    assert hatch_build.tell_compiler().endswith("with ccache gcc-14\n")


def test_the_compiler_of_the_machine_is_taken(
    monkeypatch: pytest.MonkeyPatch, bare: None, tmp_path: Path
) -> None:
    """Python need not have been compiled with it."""
    (tmp_path / "clang").touch(mode=0o755)

    assert hatch_build.choose_compiler() == "clang"
    assert make_hook("wheel").dependencies() == []


def test_a_machine_without_a_compiler_fetches_one(
    monkeypatch: pytest.MonkeyPatch, bare: None
) -> None:
    """An installer brings it for the build alone; what is built runs on processors of its kind."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())

    assert make_hook("wheel").dependencies() == [hatch_build.ZIG]
    assert make_hook("sdist").dependencies() == []
    command = hatch_build.choose_compiler()
    assert command == f"{sys.executable} -m ziglang cc -mcpu=baseline"
    assert hatch_build.tell_compiler().endswith(f"from the package index ({hatch_build.ZIG})\n")


def test_a_build_without_any_compiler_stops(monkeypatch: pytest.MonkeyPatch, bare: None) -> None:
    """A build that was told to fetch nothing says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(SystemExit, match="there is no C compiler: install one") as stopped:
        hatch_build.choose_compiler()
    assert "\n" not in str(stopped.value)


def test_a_build_without_headers_stops(
    monkeypatch: pytest.MonkeyPatch, bare: None, tmp_path: Path
) -> None:
    """No compiler brings them; one line says which package does, before anything is fetched."""
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))

    for step in (
        hatch_build.tell_compiler,
        hatch_build.choose_compiler,
        make_hook("wheel").dependencies,
    ):
        with pytest.raises(SystemExit, match=f"{tmp_path} has no Python.h: install the") as stopped:
            step()
        assert "\n" not in str(stopped.value)


def test_no_old_extension_stays_where_none_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A source that no longer compiles would be tested with the binary of an older one.

    What another Python has compiled stays.
    """
    monkeypatch.setattr(hatch_build, "compile_kernels", fail)
    monkeypatch.setattr(hatch_build, "ROOT", tmp_path)
    monkeypatch.setattr(hatch_build, "KERNELS", ("broker/_kernel.py",))
    (tmp_path / "broker").mkdir()
    old, *others = (
        tmp_path / "broker" / name
        for name in (
            f"_kernel{hatch_build.EXTENSION}",
            f"_other{hatch_build.EXTENSION}",
            "_kernel.cpython-39-any.so",
        )
    )
    for path in (old, *others):
        path.touch()

    with pytest.raises(OSError, match="no kernel below"):
        hatch_build.build_in_place()
    assert not old.exists()
    assert all(path.exists() for path in others)


def test_all_that_kernels_include_exists() -> None:
    """A build looks at each of these files to see whether it has changed."""
    for path in hatch_build.DEPENDS:
        assert (hatch_build.ROOT / path).is_file()


def test_kernels_are_found_where_they_are(tmp_path: Path) -> None:
    """A kernel in a new folder, however deep, needs no entry in a list."""
    folder = tmp_path / "siltstone/broker/deep/down"
    folder.mkdir(parents=True)
    for name in ("kernel.pyx", "kernel.pxd", "_native.pxd", "_native.h", "kernel.pyi", "x.py"):
        (folder / name).touch()

    assert hatch_build.find_kernels(tmp_path) == ("siltstone/broker/deep/down/kernel.pyx",)
    assert set(hatch_build.find_declarations(tmp_path)) == {
        "siltstone/broker/deep/down/kernel.pxd",
        "siltstone/broker/deep/down/_native.h",
        "siltstone/broker/deep/down/_native.pxd",
    }


@pytest.mark.parametrize(("module", "path"), [(constants, 0), (columns, 1)])
def test_c_has_the_numbers_that_python_has(module: ModuleType, path: int, tmp_path: Path) -> None:
    """One list: the build writes all of it for the compiler, and nothing else."""
    source = Path(hatch_build.CONSTANTS[path])
    hatch_build.write_constants(tmp_path)

    first, *rows = (tmp_path / f"{source.stem}.pxi").read_text().splitlines()
    written = {name.strip(): int(value) for name, _, value in (row.partition("=") for row in rows)}
    assert first == "cdef enum:"
    assert written == {name: value for name, value in vars(module).items() if type(value) is int}
    assert len(written) > 15


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_compiles_anew_after_a_change_of_any_kernel() -> None:
    """Else an edit there would be tested with the old binary."""
    done = run_to_end(["make", "--print-data-base", "--question", "help"], cwd=hatch_build.ROOT)
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("KERNELS_IN := ")]
    inputs = set(line.split()[2:])

    assert "siltstone/protocol/core/_records.pyx" in hatch_build.KERNELS
    assert "siltstone/broker/groups/group_offsets.pyx" in hatch_build.KERNELS
    assert set(hatch_build.CONSTANTS) <= set(hatch_build.DEPENDS)
    sources = (*hatch_build.KERNELS, *hatch_build.DEPENDS)
    assert {path.removeprefix("siltstone/") for path in sources} <= inputs


def test_a_loop_over_bytes_is_compiled_for_speed() -> None:
    """A loop that is moved to another file would else be slow without a word."""
    loops = {kernel for kernel in hatch_build.KERNELS if "-O3" in hatch_build.flags_for(kernel)}

    assert loops == set(hatch_build.LOOPS)


def test_sums_wrap_because_the_build_says_so() -> None:
    """How the interpreter was compiled is no promise; the sanitized build reports each such sum."""
    assert all("-fwrapv" in hatch_build.flags_for(kernel) for kernel in hatch_build.KERNELS)
    assert "-fno-wrapv" in hatch_build.SANITIZED
