"""What exists is documented, what is documented exists, and examples run."""

from __future__ import annotations

import inspect
import json
import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fairlead import Client, Fairlead
from fairlead.cli import main
from fairlead.cli.config import value_text
from fairlead.demo.samples import samples
from fairlead.model.batches import Batch
from fairlead.model.customers import Customer
from fairlead.model.documents import WORKER_LOST, EndedDocument, Event, EventKind
from fairlead.model.json import Record
from fairlead.model.keys import Key, Limits, NewLink
from fairlead.model.usage import CustomerStanding, Me, Usage
from fairlead.model.webhooks import Delivery, WebhookWithSecret
from fairlead.policy.failures import STEP_FAILED
from fairlead.read import readers
from fairlead.server.problems import KINDS
from fairlead.worker.sandbox.answer import FINAL, REQUEUED

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"

HOSTS = ("pypi", "pythonhosted", "npmjs", "crates.io", "index-url", "artifactory", "nexus")
PLACES = re.compile(r"(?<![\w.])/(?:home|root|Users|tmp|mnt|work|workspace|builds|srv)(?:/|\b)")

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
RUNNABLE = re.compile(r"^```python runnable\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONTRACT = """
from fairlead import ClassicPolicy, Counter, Fairlead
check = ClassicPolicy(reset_interval=1500).check(None, now=0.0)
assert (check.count, check.priority) == (0, 1)
assert check.counter == Counter(count=0, updated_at=0.0)
with Fairlead("./data") as fl:
    doc = fl.submit("acme", "invoice.pdf")
    assert doc.id
    assert (doc.count, doc.priority) == (0, 1)
    fl.run_until_idle(workers=2)
    assert fl.document(doc.id).state == "done"
    assert fl.text(doc.id)
"""


@cache
def pages() -> tuple[Path, ...]:
    """Every Markdown file of the repository, without what tools have put there."""
    places = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"]
    return tuple(sorted(places))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """Rows of the page's tables, by the name in backquotes that each begins with."""
    cells_by_name = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and (named := re.match(r"`([^`]+)`", cells[0])):
            cells_by_name[named[1]] = cells[1:]
    return cells_by_name


def commands(
    command: click.Command = main, path: tuple[str, ...] = ("fairlead",)
) -> Iterator[tuple[str, click.Command]]:
    """Every command that is not hidden, by how it is typed."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None and not inner.hidden:
            yield from commands(inner, (*path, name))


def options(command: click.Command) -> set[str]:
    visible = (p for p in command.params if isinstance(p, click.Option) and not p.hidden)
    names = (name for option in visible for name in (*option.opts, *option.secondary_opts))
    return {name for name in names if name.startswith("--")}


def sections(text: str) -> dict[str, str]:
    """The text under each `### `command`` heading."""
    parts = re.split(r"^### `([^`]+)`$", text, flags=re.MULTILINE)
    cut = [re.split(r"^#", part, flags=re.MULTILINE)[0] for part in parts[2::2]]
    return dict(zip(parts[1::2], cut, strict=True))


def test_every_command_has_its_section_and_no_other_has_one() -> None:
    assert set(sections(read("command-line.md"))) == {name for name, _ in commands()}


@pytest.mark.parametrize(
    ("name", "command"), [pytest.param(*named, id=named[0]) for named in commands()]
)
def test_every_option_is_documented_and_exists(name: str, command: click.Command) -> None:
    section = sections(read("command-line.md")).get(name, "")
    named = [
        option
        for line in section.splitlines()
        if line.startswith("| `-")
        for option in re.findall(r"`(--[a-z-]+)", line.split("|")[1])
    ]
    assert sorted(named) == sorted(options(command))


def shown_settings(tmp_path: Path) -> list[dict[str, Any]]:
    """What `fairlead config show` prints for a folder without settings."""
    clean = {name: None for name in os.environ if name.startswith("FAIRLEAD_")}
    shown = CliRunner().invoke(
        main, ["config", "show", "--json", "--data", str(tmp_path)], env=clean
    )
    assert shown.exit_code == 0, shown.output
    return [
        setting for setting in json.loads(shown.stdout)["settings"] if setting["name"] != "data"
    ]


def test_every_setting_is_documented_with_its_default(tmp_path: Path) -> None:
    documented = rows(read("settings.md"))
    settings = shown_settings(tmp_path)
    assert {setting["name"] for setting in settings} == set(documented)
    for setting in settings:
        default, meaning, variable = documented[setting["name"]]
        assert default == f"`{value_text(setting['value'])}`"
        assert meaning
        assert variable == f"`FAIRLEAD_{setting['name'].upper()}`"


def test_the_page_of_the_tests_names_every_helper() -> None:
    page = (ROOT / "tests" / "README.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)", page))
    helpers = {path.stem for path in (ROOT / "tests" / "helpers").glob("*.py")}
    assert helpers - named == set()


def test_every_event_is_documented() -> None:
    assert set(rows(read("events.md"))) == {kind.value for kind in EventKind}


FIELDS: dict[str, tuple[type[Record], ...]] = {
    "A document": (EndedDocument,),
    "A batch": (Batch,),
    "A customer": (Customer,),
    "Where a customer stands": (CustomerStanding, Limits, Me),
    "Usage": (Usage,),
    "A key": (Key,),
    "A link": (NewLink,),
    "A webhook and its deliveries": (WebhookWithSecret, Delivery),
    "An event": (Event,),
}
"""Records by the section of json.md that explains their fields."""


@pytest.mark.parametrize("section", FIELDS)
def test_every_field_of_a_record_is_documented(section: str) -> None:
    text = read("json.md").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    words = set(re.findall(r"`(\w+)`", text))
    for record in FIELDS[section]:
        missing = set(record.__struct_fields__) - words
        assert not missing, (record.__name__, missing)


ONLY_CLIENT = {"me", "login_link", "run_step", "url"}
SIGNATURES = ("submit", "submit_many", "documents", "results", "events", "wait", "retry")


@pytest.mark.parametrize("surface", [Fairlead, Client])
def test_every_call_and_argument_is_documented(surface: type, tmp_path: Path) -> None:
    """The names of the client are those of both."""
    start = f"## `{surface.__name__}("
    text = read("python.md").partition(start)[2].partition("\n## ")[0]
    with Client("http://127.0.0.1:1", "key") as client, Fairlead(tmp_path / "data") as fairlead:
        installation = client if surface is Client else fairlead
        names = {name for name in dir(client) if not name.startswith("_")}
        for name in names - (ONLY_CLIENT if surface is Fairlead else set()):
            member = getattr(installation, name)
            if callable(member) or isinstance(member, str):
                assert re.search(rf"`{name}\b", text), name
                continue
            group = " ".join(re.findall(rf"\| `{name}\..*", text))
            for verb in (
                member_name
                for member_name in dir(getattr(client, name))
                if not member_name.startswith("_")
            ):
                assert f".{verb}(" in group, f"{name}.{verb}"
    for name in SIGNATURES:
        described = re.search(rf"`{name}\((.*?)\)`", text)
        assert described, name
        expected = set(inspect.signature(getattr(surface, name)).parameters) - {"self", "check"}
        missing = {
            parameter
            for parameter in expected
            if not re.search(rf"\b{parameter.strip('_')}\b", described[1])
        }
        assert missing <= {"by"}, (name, missing)


def test_every_problem_is_documented() -> None:
    documented = rows(read("http.md").partition("## Errors")[2].partition("## Keys")[0])
    assert documented == {name: [str(kind.status), kind.title] for name, kind in KINDS.items()}


def test_every_failure_code_is_documented() -> None:
    codes = read("documents.md").partition("## Failure codes")[2]
    assert set(rows(codes)) == FINAL | REQUEUED | {WORKER_LOST, STEP_FAILED}


def test_every_kind_is_documented() -> None:
    kinds = read("documents.md").partition("## Limits")[0]
    assert set(rows(kinds)) == {reader.kind for reader in readers()}


def test_every_make_target_is_documented() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    documented = rows((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert {target for target in documented if target.startswith("make ")} == {
        f"make {target}" for target in targets
    }


def test_every_marker_of_tests_is_documented() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    markers = {
        marker.split(":")[0] for marker in project["tool"]["pytest"]["ini_options"]["markers"]
    }
    documented = rows((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert {name for name in documented if not name.startswith("make ")} == {*markers, "hypothesis"}


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make."""
    headings = HEADING.findall(FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, link: str) -> bool:
    target, _, anchor = link.partition("#")
    place = (page.parent / target).resolve() if target else page
    if not place.exists() or not place.is_relative_to(ROOT):
        return True
    return bool(anchor) and place.suffix == ".md" and anchor not in anchors(place)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text("utf-8"))
    links = [first or second for first, second in LINK.findall(text)]
    assert [link for link in links if "://" not in link and broken(page, link)] == []


def test_every_file_of_the_architecture_page_exists() -> None:
    page = ROOT / "docs" / "discussion" / "architecture.md"
    table = page.read_text("utf-8").partition("\n## Where to look\n")[2]
    files = re.findall(r"`([a-z_/]+(?:\.py|/))`", table)
    assert files
    assert [file for file in files if not (ROOT / "src" / "fairlead" / file).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {first or second for first, second in LINK.findall(index.read_text("utf-8"))}
    wanted = {str(page.relative_to(index.parent)) for page in index.parent.rglob("*.md")}
    assert wanted - {"README.md"} - linked == set()


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_page_names_a_registry_or_a_place_on_somebodys_machine(page: Path) -> None:
    text = page.read_text("utf-8")
    assert [host for host in HOSTS if host in text.lower()] == []
    assert PLACES.findall(text) == []
    assert str(ROOT) not in text


def runnable() -> list[Any]:
    blocks_of_pages = [(page, RUNNABLE.findall(page.read_text("utf-8"))) for page in pages()]
    return [pytest.param(blocks, id=name_of(page)) for page, blocks in blocks_of_pages if blocks]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, with a document that any reader of the pages may have."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FAIRLEAD_")]:
        monkeypatch.delenv(name)
    invoice = next(sample for sample in samples(50, seed=1) if sample.name.endswith(".pdf"))
    Path("invoice.pdf").write_bytes(invoice.content)
    return tmp_path


@pytest.mark.services
@pytest.mark.parametrize("blocks", runnable())
def test_examples_run_one_after_the_other_in_an_installation(
    blocks: list[str], folder: Path
) -> None:
    exec(compile(CONTRACT, "contract", "exec"), {})
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number}", "exec"), names)


@pytest.mark.services
def test_the_contract_holds(folder: Path) -> None:
    exec(compile(CONTRACT, "contract", "exec"), {})


def test_the_quickstart_has_examples() -> None:
    assert len(RUNNABLE.findall((ROOT / "docs" / "quickstart.md").read_text("utf-8"))) == 2


@pytest.mark.services
def test_a_copy_made_as_the_page_says_is_an_installation(folder: Path) -> None:
    exec(compile(CONTRACT, "contract", "exec"), {})
    page = ROOT / "docs" / "how-to" / "back-up-and-restore.md"
    (block,) = RUNNABLE.findall(page.read_text("utf-8"))
    exec(compile(block, "copy", "exec"), {})
    assert CliRunner().invoke(main, ["doctor", "--data", "copy"]).exit_code == 0
    shown = CliRunner().invoke(main, ["docs", "list", "--data", "copy"])
    id_ = re.findall(r"^[0-9a-z]{26}", shown.stdout, re.MULTILINE)[0]
    text = CliRunner().invoke(main, ["docs", "text", id_, "--data", "copy"])
    assert (text.exit_code, bool(text.stdout.strip())) == (0, True)
