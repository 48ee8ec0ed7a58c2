"""The pictures of the fair policy are drawn by a command, and shown by a page."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from bench.pictures import FOLDER, PICTURES, main
from click.testing import CliRunner

PAGE = FOLDER.parent / "discussion" / "fair.md"


def test_a_small_run_draws_every_picture(tmp_path: Path) -> None:
    """Pictures made by a command."""
    result = CliRunner().invoke(main, ["--folder", str(tmp_path), "--scale", "0.2"])
    assert result.exit_code == 0, result.output
    for name in PICTURES:
        picture = ET.parse(tmp_path / f"{name}.svg").getroot()
        assert len(picture) > 10, name


def test_the_page_shows_every_picture_and_all_are_there() -> None:
    """A page on fair/2 with these pictures."""
    shown = re.findall(r"!\[[^\]]+\]\(\.\./fair/([a-z-]+)\.svg\)", PAGE.read_text("utf-8"))
    assert sorted(shown) == sorted(PICTURES) == sorted(path.stem for path in FOLDER.iterdir())


def test_the_pictures_are_what_the_command_draws_now() -> None:
    """A change of the rule that changes a picture is to be seen."""
    for name, draw in PICTURES.items():
        assert draw(1.0) == (FOLDER / f"{name}.svg").read_text("utf-8"), "run make fair-pictures"
