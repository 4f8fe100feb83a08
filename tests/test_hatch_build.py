"""The build of the kernels: what each value of KERNELS does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hatch_build
from siltstone.protocol.core import constants
from siltstone.protocol.messages import columns


def fail(target: Path) -> list[Path]:
    """Stand for a machine without a compiler."""
    raise OSError(f"no compiler for {target}\nand more of it")


def test_off_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KERNELS=off leaves plain Python without a word."""
    monkeypatch.setenv("KERNELS", "off")
    monkeypatch.setattr(hatch_build, "compile_kernels", fail)

    assert hatch_build.build(tmp_path) == []


def test_auto_goes_on_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a compiler the project installs all the same; one line says why, and what to do."""
    monkeypatch.delenv("KERNELS", raising=False)
    monkeypatch.setattr(hatch_build, "compile_kernels", fail)

    assert hatch_build.build(tmp_path) == []
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"siltstone: NOTHING IS COMPILED (no compiler for {tmp_path})")
    assert "install a C compiler" in line


def test_no_old_extension_stays_where_none_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A source that no longer compiles would be tested with the binary of an older one.

    What another Python has compiled stays.
    """
    monkeypatch.setenv("KERNELS", "auto")
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

    assert hatch_build.build_in_place() == []
    assert not old.exists()
    assert all(path.exists() for path in others)


def test_require_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A release never ships slow kernels by accident."""
    monkeypatch.setenv("KERNELS", "require")
    monkeypatch.setattr(hatch_build, "compile_kernels", fail)

    with pytest.raises(OSError, match="no compiler"):
        hatch_build.build(tmp_path)


def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A slip in the variable is not taken for auto."""
    monkeypatch.setenv("KERNELS", "on")

    with pytest.raises(SystemExit, match="KERNELS=on is not known"):
        hatch_build.build(tmp_path)


def test_every_kernel_has_its_types_beside_it() -> None:
    """A kernel without a .pxd would compile to slow code, or not at all."""
    for kernel in hatch_build.KERNELS:
        if kernel.endswith(".pyx"):
            continue
        assert (hatch_build.ROOT / kernel).with_suffix(".pxd").is_file()
    for path in hatch_build.DEPENDS:
        assert (hatch_build.ROOT / path).is_file()


def test_kernels_are_found_where_they_are(tmp_path: Path) -> None:
    """A kernel in a new folder, however deep, needs no entry in a list."""
    folder = tmp_path / "siltstone/broker/deep/down"
    folder.mkdir(parents=True)
    for name in ("kernel.py", "kernel.pxd", "_native.pxd", "_native.h", "_portable.py", "x.py"):
        (folder / name).touch()

    assert hatch_build.find_kernels(tmp_path) == ("siltstone/broker/deep/down/kernel.py",)
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


def test_plain_python_leaves_files_that_are_run_by_their_path_alone(tmp_path: Path) -> None:
    """Only folders are searched for sources; the build runs lists of numbers as files."""
    words = (
        "import hatch_build, pathlib, siltstone\n"
        f"hatch_build.write_constants(pathlib.Path({str(tmp_path)!r}))"
    )
    subprocess.run(
        [sys.executable, "-c", words],
        cwd=hatch_build.ROOT,
        check=True,
        env={**os.environ, "SILTSTONE_KERNELS": "off"},
    )

    assert (tmp_path / "constants.pxi").is_file()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_compiles_anew_after_a_change_of_any_kernel() -> None:
    """Else an edit there would be tested with the old binary."""
    done = subprocess.run(
        ["make", "--print-data-base", "--question", "help"],
        cwd=hatch_build.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("KERNELS_IN := ")]
    inputs = set(line.split()[2:])

    assert "siltstone/protocol/core/_records.pyx" in hatch_build.KERNELS
    assert "siltstone/broker/groups/_commit_kernels.py" in hatch_build.KERNELS
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
