"""The catalogues: complete, with nothing left over, the same placeholders, all plural forms."""

from __future__ import annotations

import ast
import gettext
import re
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import fairlead
from fairlead.i18n import texts as spoken
from fairlead.i18n.catalogue import CatalogueEntry, catalogue, entries
from fairlead.i18n.languages import FORMATS, LANGUAGES
from fairlead.i18n.texts import error_classes
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
    """All texts of one form, wherever they are said."""
    return spoken.sentences() | words.sentences(environment())


@cache
def plurals() -> set[Plural]:
    """All texts that depend on a number."""
    return spoken.plurals() | words.plurals(environment())


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@cache
def said() -> list[tuple[str, set[str | None]]]:
    """Every template of `Message` in the program, with the names that fill it."""
    trees = [ast.parse(each.read_text("utf-8")) for each in SOURCE.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    words = [each for each in calls if getattr(each.func, "id", "") == "Message" and each.args]
    return [
        (str(each.args[0].value), {name.arg for name in each.keywords} - {"hint"})
        for each in words
        if isinstance(each.args[0], ast.Constant)
    ]


def templates() -> set[str]:
    return {template for template, _ in said()}


def texts(language: str) -> list[CatalogueEntry]:
    return [each for each in entries(language) if each.text]


@pytest.mark.parametrize("language", TRANSLATED)
def test_nothing_is_missing_unused_doubled_or_fuzzy(language: str) -> None:
    found = texts(language)
    wanted = sentences() | templates() | {each.one for each in plurals()}
    assert {each.text for each in found} == wanted
    assert len(found) == len(wanted)
    assert set(catalogue(language)) == wanted, "a translation is empty or fuzzy"
    assert {each.text: each.plural for each in found if each.plural} == {
        each.one: each.other for each in plurals()
    }


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_form_is_there_with_the_same_placeholders(language: str) -> None:
    for each in texts(language):
        forms = FORMATS[language].forms if each.plural else 1
        assert sorted(each.forms) == list(range(forms)), each.text
        for form in each.forms.values():
            assert placeholders(form) == placeholders(each.text), form
            assert form[-1:] == "." if each.text[-1:] == "." else form[-1:] != ".", form


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_header_says_what_the_code_does(language: str) -> None:
    (header,) = [each.forms[0] for each in entries(language) if not each.text]
    assert f"Language: {language}\n" in header
    found = re.search(r"nplurals=(\d); plural=(.*);", header)
    assert found is not None
    by_header = gettext.c2py(found[2])  # what gettext itself uses
    ours = FORMATS[language]
    assert int(found[1]) == ours.forms
    assert all(by_header(number) == ours.form(number) for number in range(1000))


def test_other_languages_are_no_copies_of_english() -> None:
    for language in TRANSLATED:
        same = {text for text, forms in catalogue(language).items() if text in forms}
        assert same <= LOAN_WORDS


def test_every_failure_code_has_its_sentence() -> None:
    assert set(SENTENCES) == set(words.FAILURES) == FINAL | REQUEUED | {WORKER_LOST, STEP_FAILED}


def test_every_error_has_a_code_and_a_title_of_its_own() -> None:
    found = list(error_classes())
    assert len({each.code for each in found}) == len({each.title for each in found}) == len(found)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each.code) for each in found)
    assert all("code" in vars(each) and "title" in vars(each) for each in found)


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
    assert [each for each in words.split() if each not in everything] == []


def test_templates_are_filled_with_what_they_name() -> None:
    assert len(templates()) > 60
    assert [each for each in said() if each[1] != placeholders(each[0])] == []
