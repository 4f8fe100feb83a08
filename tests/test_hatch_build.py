"""The build of the kernels: what each value of KERNELS does."""

from pathlib import Path

import pytest

import hatch_build


def fail(target: Path) -> list[Path]:
    """Stand for a machine without a compiler."""
    raise OSError(f"no compiler for {target}")


def test_off_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KERNELS=off leaves plain Python without a word."""
    monkeypatch.setenv("KERNELS", "off")
    monkeypatch.setattr(hatch_build, "compile_kernels", fail)

    assert hatch_build.build(tmp_path) == []


def test_auto_goes_on_with_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a compiler the project installs all the same."""
    monkeypatch.delenv("KERNELS", raising=False)
    monkeypatch.setattr(hatch_build, "compile_kernels", fail)

    with pytest.warns(UserWarning, match="stay plain Python"):
        assert hatch_build.build(tmp_path) == []


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
        assert (hatch_build.ROOT / kernel).with_suffix(".pxd").is_file()
    for path in hatch_build.DEPENDS:
        assert (hatch_build.ROOT / path).is_file()
