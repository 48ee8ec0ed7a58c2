"""The tables behind the locks, and what is said where a lock is missing."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.errors import DataError
from fairlead.worker.sandbox import kernel_features, landlock
from fairlead.worker.sandbox.seccomp import AARCH64, CHECKED, FREE, X86_64, numbers, program

LIBSECCOMP = ctypes.util.find_library("seccomp")
ARCHITECTURES = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}


@pytest.mark.skipif(LIBSECCOMP is None, reason="libseccomp, which knows all numbers, is not here")
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_numbers_are_those_that_libseccomp_knows(machine: str) -> None:
    resolve = ctypes.CDLL(LIBSECCOMP).seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    for name, number in (numbers(FREE, machine) | numbers(CHECKED, machine)).items():
        assert resolve(ARCHITECTURES[machine], name.encode()) == number, name


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filter_is_one_that_the_kernel_takes(machine: str) -> None:
    lines = program(machine, 4711)
    assert len(lines) < 4096
    for at, (_, if_true, if_false, _) in enumerate(lines):
        assert at + max(if_true, if_false) < len(lines)
        assert max(if_true, if_false) < 256


def test_a_folder_of_modules_gives_access_to_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "fairlead-data").mkdir()
    (tmp_path / "single.py").touch()
    (tmp_path / "secret.txt").touch()
    monkeypatch.syspath_prepend(tmp_path)
    landlock.readable.cache_clear()  # it was looked up before, with another path
    names = {path.name for path in landlock.readable(None) if path.is_relative_to(tmp_path)}
    assert names == {"package", "single.py"}
    assert tmp_path not in set(landlock.readable(None))
    landlock.readable.cache_clear()


@pytest.mark.parametrize("place", ["/usr/share", f"{sys.prefix}/lib"])
def test_data_folders_where_children_may_read_are_refused(place: str, tmp_path: Path) -> None:
    """Safety finding 4: there a child that was taken over could read the operator key."""
    link = tmp_path / "link"
    link.symlink_to(place)
    for folder in (Path(place, "fairlead-data"), link / "fairlead-data"):
        with pytest.raises(DataError, match="choose a folder elsewhere, such as /var/lib/fairlead"):
            Fairlead(folder)
        with pytest.raises(DataError, match="where the processes that read documents may read"):
            Fairlead(tmp_path / "data", settings={"files": str(folder)})
        assert not folder.exists()


def test_the_doctor_warns_of_a_missing_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fairlead(tmp_path).close()
    monkeypatch.setattr(kernel_features, "landlock_version", lambda: 0)
    shown = CliRunner().invoke(main, ["doctor", "--data", str(tmp_path)])
    assert "warning  this machine lacks Landlock" in shown.stdout
    assert shown.exit_code == 0
