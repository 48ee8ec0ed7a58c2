"""The catalogues: complete, without unused texts, same placeholders, all plural forms."""

from __future__ import annotations

import ast
import gettext
import re
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import fairlead
from fairlead.errors import error_classes
from fairlead.i18n import texts as spoken
from fairlead.i18n.catalogue import CatalogueEntry, catalogue, entries
from fairlead.i18n.languages import FORMATS, LANGUAGES
from fairlead.model.documents import WORKER_LOST
from fairlead.policy.explain import Plural
from fairlead.policy.failures import SENTENCES, STEP_FAILED
from fairlead.server.dashboard import texts as words
from fairlead.server.dashboard.page import environment
from fairlead.worker.sandbox.answer import FINAL, REQUEUED

SOURCE = Path(fairlead.__file__).parent
TRANSLATED = LANGUAGES[1:]  # English is the source
LOAN_WORDS = {"Pipeline"}  # German, Spanish and Portuguese have no other word for it


@cache
def sentences() -> set[str]:
    """All texts without plural forms."""
    return spoken.sentences() | words.sentences(environment())


@cache
def plurals() -> set[Plural]:
    """All texts that depend on a number."""
    return spoken.plurals() | words.plurals(environment())


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@cache
def messages() -> list[tuple[str, set[str | None]]]:
    """Every template of `Message` in the program, with the names that fill it."""
    trees = [ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if getattr(call.func, "id", "") == "Message" and call.args]
    return [
        (str(call.args[0].value), {name.arg for name in call.keywords} - {"hint"})
        for call in calls
        if isinstance(call.args[0], ast.Constant)
    ]


def templates() -> set[str]:
    return {template for template, _ in messages()}


def texts(language: str) -> list[CatalogueEntry]:
    return [entry for entry in entries(language) if entry.text]


@pytest.mark.parametrize("language", TRANSLATED)
def test_nothing_is_missing_unused_doubled_or_fuzzy(language: str) -> None:
    listed = texts(language)
    wanted = sentences() | templates() | {plural.one for plural in plurals()}
    assert {entry.text for entry in listed} == wanted
    assert len(listed) == len(wanted)
    assert set(catalogue(language)) == wanted, "a translation is empty or fuzzy"
    assert {entry.text: entry.plural for entry in listed if entry.plural} == {
        plural.one: plural.other for plural in plurals()
    }


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_form_is_there_with_the_same_placeholders(language: str) -> None:
    for entry in texts(language):
        forms = FORMATS[language].forms if entry.plural else 1
        assert sorted(entry.forms) == list(range(forms)), entry.text
        for form in entry.forms.values():
            assert placeholders(form) == placeholders(entry.text), form
            assert form[-1:] == "." if entry.text[-1:] == "." else form[-1:] != ".", form


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_header_says_what_the_code_does(language: str) -> None:
    (header,) = [entry.forms[0] for entry in entries(language) if not entry.text]
    assert f"Language: {language}\n" in header
    match = re.search(r"nplurals=(\d); plural=(.*);", header)
    assert match is not None
    by_header = gettext.c2py(match[2])  # what gettext itself uses
    ours = FORMATS[language]
    assert int(match[1]) == ours.forms
    assert all(by_header(number) == ours.form(number) for number in range(1000))


def test_other_languages_are_no_copies_of_english() -> None:
    for language in TRANSLATED:
        same = {text for text, forms in catalogue(language).items() if text in forms}
        assert same <= LOAN_WORDS


def test_every_failure_code_has_its_sentence() -> None:
    assert set(SENTENCES) == set(words.FAILURES) == FINAL | REQUEUED | {WORKER_LOST, STEP_FAILED}


def test_every_error_has_a_code_and_a_title_of_its_own() -> None:
    classes = list(error_classes())
    assert (
        len({error.code for error in classes})
        == len({error.title for error in classes})
        == len(classes)
    )
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", error.code) for error in classes)
    assert all("code" in vars(error) and "title" in vars(error) for error in classes)


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("es", "conteo cliente prioridad pendientes"),
        ("pt", "contagem cliente prioridade pendentes"),
        ("pl", "liczba klient priorytet oczekujących"),
        ("de", "Zählung Kunde Priorität ausstehende"),
    ],
)
def test_the_words_are_those_of_the_wordbook(language: str, words: str) -> None:
    everything = " ".join(" ".join(forms) for forms in catalogue(language).values())
    assert [word for word in words.split() if word not in everything] == []


def test_templates_are_filled_with_what_they_name() -> None:
    assert len(templates()) > 60
    assert [message for message in messages() if message[1] != placeholders(message[0])] == []
