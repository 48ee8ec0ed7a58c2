"""Regression: `doctor` reported ok for changed and missing contents and a readable key."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner
from needs import need

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.errors import DamagedData
from fairlead.model.documents import Delayed
from fairlead.model.results import Interim
from fairlead.read import ocr
from fairlead.read.ocr import tessdata

LONG = b"a page\n" * 20_000


def problems(data: Path, *options: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["doctor", "--data", str(data), *options])
    lines = result.output.splitlines()
    return result.exit_code, [line for line in lines if line.startswith("problem")]


def test_deep_finds_flipped_changed_and_missing_contents(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        contents = (b"short", LONG, LONG)
        short, changed, missing = (fairlead.submit("acme", content).id for content in contents)
        fairlead.store.attend("engine", 1)
        assert problems(tmp_path, "--deep") == (0, [])
        path = fairlead.contents.path(fairlead.document(changed))
        path.write_bytes(b"b" + LONG[1:])
        fairlead.contents.path(fairlead.document(missing)).unlink()
    database = tmp_path / "fairlead.db"
    connection = apsw.Connection(str(database))
    connection.execute(
        "UPDATE originals SET content = CAST('shorT' AS BLOB) WHERE length(content) = 5"
    )
    connection.close()
    code, texts = problems(tmp_path, "--deep")
    assert code == 1
    assert len(texts) == 3
    for id_ in (short, changed, missing):
        assert sum(id_ in line for line in texts) == 1


def test_the_languages_of_ocr_are_tried_and_missing_ones_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(tessdata() is not None, "the package tesseract-ocr-eng")
    tested = tmp_path / "tessdata"
    tested.mkdir()
    shutil.copy(tessdata() / "eng.traineddata", tested)  # type: ignore[operator]
    (tested / "spa.traineddata").write_bytes(b"cut off")
    monkeypatch.setenv("TESSDATA_PREFIX", str(tested))
    data = tmp_path / "data"
    with Fairlead(data, settings={"ocr_languages": ["eng"]}):
        pass
    (data / "fairlead.toml").write_text('ocr_languages = ["eng", "spa", "chi_sim"]\n')
    result = CliRunner().invoke(main, ["doctor", "--data", str(data)])
    assert result.exit_code == 1
    assert f"Tesseract cannot load spa.traineddata in {tested}" in result.output
    assert "needs the package(s) tesseract-ocr-chi-sim" in result.output
    assert re.search(r"^ok +OCR works: Tesseract [\d.]+ with eng$", result.output, re.MULTILINE)
    (tested / "spa.traineddata").unlink()
    result = CliRunner().invoke(main, ["doctor", "--data", str(data)])
    assert result.exit_code == 0
    assert "warning  scans are not read, or not well" in result.output


def test_a_missing_ocr_library_is_named_with_its_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tesserocr", None)  # an import of it fails
    ocr._library.cache_clear()
    with Fairlead(tmp_path):
        pass
    result = CliRunner().invoke(main, ["doctor", "--data", str(tmp_path)])
    ocr._library.cache_clear()
    assert result.exit_code == 0
    assert "[ocr]'" in result.output.partition("; install it: ")[2]
    assert "OCR works" not in result.output


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x80
    path.write_bytes(content)


@pytest.mark.parametrize("what", [b"globex", b"letter.txt", b"classic/1"])
@pytest.mark.parametrize("which", ["first", "last"])
def test_flipped_bits_of_the_database_are_a_problem(
    tmp_path: Path, what: bytes, which: str
) -> None:
    """Regression: 0 of 98 were seen. Names are in a table and in an index, others in a table."""
    with Fairlead(tmp_path) as fairlead:
        for number in range(20):
            fairlead.submit("globex", b"%d" % number, name="letter.txt")
    database = tmp_path / "fairlead.db"
    content = database.read_bytes()
    flip(database, content.index(what) if which == "first" else content.rindex(what))
    code, texts = problems(tmp_path, "--deep")
    assert code == 1
    assert texts


@pytest.mark.parametrize("damage", ["none", "flipped", "deleted", "cut"])
def test_a_damaged_wal_is_a_problem(tmp_path: Path, damage: str) -> None:
    """SQLite leaves out what follows a damaged frame, and says nothing."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with Fairlead(data) as fairlead:
        fairlead.store.attend("engine", 1)
        for _ in range(20):
            fairlead.submit("acme", b"short")
        shutil.copytree(data, copy)  # as after a power cut
    wal = copy / "fairlead.db-wal"
    match damage:
        case "flipped":
            flip(wal, wal.stat().st_size // 2)
        case "deleted":
            wal.unlink()
        case "cut":
            os.truncate(wal, wal.stat().st_size // 2)
    code, texts = problems(copy)
    assert code == (damage != "none")
    assert [line for line in texts if "events are missing" in line] == texts[: damage != "none"]


def test_a_new_database_in_a_used_folder_misses_nothing(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.submit("acme", b"short")
    (tmp_path / "fairlead.db").unlink()
    with Fairlead(tmp_path) as fairlead:
        fairlead.customers.add("acme")
    assert not [line for line in problems(tmp_path)[1] if "events are missing" in line]


def test_an_operator_key_that_others_may_read_is_a_problem(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        fairlead.keys.operator_key()
    assert problems(tmp_path) == (0, [])
    (tmp_path / "operator.key").chmod(0o644)
    code, texts = problems(tmp_path)
    assert code == 1
    assert "chmod 600" in texts[0]


def test_the_sweep_stops_at_many_orphans(tmp_path: Path) -> None:
    """Regression: after a damaged WAL the sweep deleted all documents whose rows were lost."""
    with Fairlead(tmp_path) as fairlead:
        keys = [f"0000000{number:019}" for number in range(51)]
        fairlead.files.put_all([(key, b"x") for key in keys])
        for key in keys:
            os.utime(fairlead.files.path(key), (0, 0))
        with pytest.raises(DamagedData, match="51 of 51"):
            fairlead.services.sweep()
        assert all(fairlead.files.path(key).exists() for key in keys)
        fairlead.files.delete(keys[:1])
        assert fairlead.services.sweep() == 50


def test_a_step_that_asks_again_and_again_is_named(tmp_path: Path) -> None:
    with Fairlead(
        tmp_path, settings={"pipelines": {"default": {"steps": ["pull:erp"]}}}
    ) as fairlead:
        document = fairlead.submit("acme", b"x", name="a.txt")
        claim = fairlead.store.claim("worker")
        assert claim is not None
        asked = Interim(("pull:erp",), later=20, later_since=0.0)
        fairlead.store.finish(claim, Delayed(1.0, asked))
        result = CliRunner().invoke(main, ["doctor", "--data", str(tmp_path)])
        assert document.id not in result.output
    assert "step pull:erp asks again and again to be called later" in result.output
    assert "for 1 document, up to 20 times" in result.output
