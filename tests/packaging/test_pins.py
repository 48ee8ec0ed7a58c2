"""The pinned files: what pyproject.toml names is in them, and parts agree with the whole."""

from __future__ import annotations

import re

import pytest
from packagekit import ROOT, extras, included, pins, requirements
from packaging.utils import canonicalize_name

PARTS = {
    "requirements-demo.txt": ["demo"],
    "requirements-server.txt": ["server", "ocr", "postgres", "s3", "celery", "client"],
    "requirements.txt": ["all"],
}


@pytest.mark.parametrize("name", PARTS)
def test_what_the_extras_name_is_pinned(name: str) -> None:
    pinned = pins(name)
    for requirement in requirements(*PARTS[name]):
        version, hashes = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
        assert hashes


@pytest.mark.parametrize("name", PARTS)
def test_parts_agree_with_the_whole_and_can_build(name: str) -> None:
    assert pins(name).items() <= pins("requirements.txt").items()
    assert "setuptools" in pins(name)  # tools/setup.sh builds without an environment of its own


@pytest.mark.parametrize("name", [*PARTS, "bench/peers-requirements.txt"])
def test_pins_name_no_index_and_no_host(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert re.findall(r"^-.*|\S*://\S*| @ .*", text, re.MULTILINE) == []


def test_the_demo_installs_little() -> None:
    assert len(pins("requirements-demo.txt")) < 25


def test_the_extra_all_has_every_extra() -> None:
    assert included("all") == set(extras()) - {"all"}


def test_the_image_installs_what_the_server_needs() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert "--require-hashes -r requirements-server.txt" in dockerfile
    assert {"postgres", "celery"} <= set(PARTS["requirements-server.txt"])  # of compose.yaml


def test_every_extra_is_documented() -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    table = page.partition("## Install")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(extras())
