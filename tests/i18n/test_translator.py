"""The translator: reasons, numbers, durations, times, and the choice of a language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import FairleadError, Message, PendingCapReached, error_classes
from fairlead.i18n import LANGUAGES, language_of, negotiate, translator
from fairlead.model.explanations import Forecast, Reason
from fairlead.policy.explain import WORDS, words

PARAMS = {
    **dict.fromkeys(["count", "bound"], -3),
    **dict.fromkeys(["units", "accounts_before", "accounts_beyond"], 3),
    **dict.fromkeys(["priority", "attempts", "calls", "processing", "own_documents"], 2),
    **dict.fromkeys(["other_documents", "other_customers"], 5),
    **dict.fromkeys(["seconds", "weight"], 1234.5),
    "customer": "acme",
    "problem": "there is no module crm",
    "account": "group",
    "pipeline": "invoices",
    "limit": "15/s",
    "running": 8,
    "error": "damaged",
    "detail": "The PDF is damaged.",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", WORDS)
def test_every_reason_can_be_said(code: str, language: str) -> None:
    sentence = translator(language).reason(Reason(code, PARAMS))
    assert sentence
    assert "{" not in sentence
    if language == "en":
        assert sentence == words(Reason(code, PARAMS))


def ahead(own: int) -> Reason:
    return Reason("ahead", {"own_documents": own, "other_documents": 1, "other_customers": 22})


@pytest.mark.parametrize(
    ("number", "polish"),
    [
        (1, "1 dokument tego"),
        (2, "2 dokumenty tego"),
        (5, "5 dokumentów tego"),
        (12, "12 dokumentów tego"),
        (22, "22 dokumenty tego"),
        (112, "112 dokumentów tego"),
        (0, "0 dokumentów tego"),
    ],
)
def test_polish_has_three_forms(number: int, polish: str) -> None:
    sentence = translator("pl").reason(ahead(number))
    assert (
        f"przed nim: {polish} samego klienta, 1 dokument innych klientów (22 klienci)" == sentence
    )


@pytest.mark.parametrize(
    ("before", "polish"),
    [
        (1, "1 klient dostał mniej lub czeka dłużej i idzie najpierw"),
        (3, "3 klienci dostali mniej lub czekają dłużej i idą najpierw"),
        (5, "5 klientów dostało mniej lub czeka dłużej i idzie najpierw"),
    ],
)
def test_who_goes_first_is_told_with_the_right_verb(before: int, polish: str) -> None:
    reason = Reason("had-lately", {"units": 14, "accounts_before": before})
    sentence = translator("pl").reason(reason)
    assert sentence == f"klient dostał ostatnio pracę odpowiadającą 14 dokumentom; {polish}"


def test_the_fair_rule_is_told_without_clock_and_tags() -> None:
    had = Reason("had-lately", {"units": 1, "accounts_before": 1})
    assert translator("de").reason(had) == (
        "der Kunde hat zuletzt Arbeit für 1 Dokument bekommen; "
        "1 Kunde hat weniger bekommen oder wartet länger und kommt zuerst an die Reihe"
    )
    beyond = Reason("beyond-allowance", {"accounts_beyond": 2, "other_documents": 5})
    assert translator("es").reason(beyond) == (
        "superado su margen, su cliente comparte por igual con 2 clientes más; "
        "5 documentos de otros clientes empiezan antes"
    )
    fades = Reason("fades", {"seconds": 480})
    assert translator("pt").reason(fades) == ("isso diminui com o tempo: em 8 min seria o primeiro")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(12.0, "+12 s"), (-3.4, "−3,4 s"), (0.0, "0 s"), (-600, "−10 min")]
)
def test_ahead_has_a_plus_and_behind_a_minus(seconds: float, shown: str) -> None:
    assert translator("de").balance(seconds) == shown


def test_a_failure_is_told_in_the_customers_language() -> None:
    reason = Reason("failed", {"error": "encrypted", "detail": "The PDF is protected."})
    assert translator("de").reason(reason) == (
        "es ist fehlgeschlagen (encrypted): Das Dokument ist durch ein Passwort geschützt; "
        "senden Sie es noch einmal mit seinem Passwort."
    )
    assert translator("en").reason(reason).endswith("The PDF is protected.")
    assert translator("es").failure("never-heard-of") == "never-heard-of"


def test_titles() -> None:
    assert translator("de").text(PendingCapReached.title) == "Zu viele ausstehende Dokumente"
    assert translator("xx").text(FairleadError.title) == "Internal error"
    for language in LANGUAGES[1:]:
        assert all(
            translator(language).text(error.title) != error.title for error in error_classes()
        )


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", ["1,234", "12,345.5", "−20"]),
        ("es", ["1234", "12.345,5", "−20"]),
        ("pt", ["1.234", "12.345,5", "−20"]),
        ("pl", ["1234", "12\u00a0345,5", "−20"]),
        ("de", ["1.234", "12.345,5", "−20"]),
    ],
)
def test_numbers(language: str, shown: list[str]) -> None:
    assert [translator(language).number(value) for value in (1234, 12345.5, -20)] == shown


def test_lengths_of_time() -> None:
    lengths = (0.4, 1, 90, 150, 7200, 200_000)
    assert [translator("en").duration(length) for length in lengths] == [
        *("0 seconds", "1 second", "90 seconds", "2 minutes", "2 hours", "2 days")
    ]
    assert [translator("pl").duration(seconds) for seconds in (1, 3, 300, 7200)] == [
        *("1 sekunda", "3 sekundy", "5 minut", "2 godziny")
    ]
    assert translator("pt").duration(0) == "0 segundo"


def test_times() -> None:
    at = 1_769_860_800.0
    assert translator("en").instant(at) == "31/01/2026, 12:00:00 UTC"
    assert translator("de").instant(at) == "31.01.2026, 12:00:00 UTC"


def test_forecasts() -> None:
    soon = Forecast(1180.0, 1060.0, 1360.0)
    assert translator("en").forecast(soon, 1000.0) == (
        "expected to start in about 3 min (60 s to 6 min)"
    )
    assert translator("de").forecast(Forecast(400.0, 300.0, 600.0), 0.0) == (
        "Beginn erwartet in etwa 7 min (5 bis 10 min)"
    )
    assert translator("en").forecast(Forecast(1.0, 0.5, 1.5), 1.0) == (
        "expected to start immediately"
    )


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("fr,pl;q=0.3,es;q=0.7", "es"),
        ("pt-BR", "pt"),
        ("PL", "pl"),
        ("fr-CH, fr;q=0.9, *;q=0.5", "en"),
        ("de;q=0,en;q=0.1", "en"),
        ("de;q=0", "en"),
        ("de ; q=0.5 , es ; q=0.6", "es"),
        ("de;q=2,es", "es"),
        ("de;q=nan", "en"),
        ("de;q=x,,;;=,es;q=0.1", "es"),
        ("", "en"),
        (None, "en"),
        ("xx", "en"),
        ("x," * 100_000 + "de", "en"),
    ],
)
def test_the_language_of_a_request(accepted: str | None, language: str) -> None:
    assert negotiate(accepted) == language


@given(st.text())
def test_whatever_is_asked_for_there_is_a_language(accepted: str) -> None:
    assert negotiate(accepted) in LANGUAGES


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "de_AT.UTF-8"}, "de"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "pl_PL"}, "pl"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, "de"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LC_ALL": "C", "LANG": "de_DE"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_of_a_process(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_said_with_what_fills_them(language: str) -> None:
    words = Message(
        "this request may have at most {bytes} bytes; send a smaller one", bytes=1_234_567
    )
    sentence = translator(language).message(words)
    assert "{" not in sentence
    assert ("1,234,567" in sentence) == (language == "en")
    assert translator(language).message("no template") == "no template"


def test_english_says_words_as_they_are_without_the_hint() -> None:
    words = Message("{rate} of {burst} for {name}", rate=20.0, burst=2500, name="'x'", hint="see y")
    assert words == "20 of 2,500 for 'x'; see y"
    assert translator("en").message(words) == words.without_hint() == "20 of 2,500 for 'x'"


def test_a_failure_is_told_in_its_own_sentence() -> None:
    words = Message(
        "document {id} is {state} ({error}): {detail}; it has no text",
        id="1",
        state="failed",
        error="damaged",
        detail="The PDF is damaged",
    )
    assert "The PDF is damaged" in translator("en").message(words)
    assert translator("de").failure("damaged").rstrip(".") in translator("de").message(words)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1380, "resets in 23 min if no other document arrives"),
        (42, "resets in 42 s if no other document arrives"),
        (0.25, "resets in 250 ms if no other document arrives"),
    ],
)
def test_lengths_of_time_in_reasons(seconds: float, words: str) -> None:
    reason = Reason("resets-unless", {"seconds": seconds})
    assert translator("en").reason(reason) == words
    assert translator("de").reason(Reason("resets", {"seconds": 1380})) == (
        "der Zähler wird in 23 min zurückgesetzt"
    )


@pytest.mark.parametrize(
    ("size", "language", "shown"),
    [
        (0, "en", "0 B"),
        (999, "en", "999 B"),
        (1000, "en", "1 kB"),
        (1536, "de", "1,5 kB"),
        (218_000, "en", "213 kB"),
        (21_864_258, "en", "20.9 MB"),
        (21_864_258, "es", "20,9 MB"),
        (5 * 1024**3, "pl", "5 GB"),
        (1023 * 1024**4, "en", "1,023 TB"),
    ],
)
def test_sizes_have_a_unit_that_people_can_compare(size: int, language: str, shown: str) -> None:
    assert translator(language).size(size) == shown
