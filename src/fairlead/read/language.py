"""Detects the language of a text by its script and by frequent short words."""

from __future__ import annotations

import re
from collections import Counter

_SAMPLE_CHARACTERS = 8_000
_MIN_HITS = 4
_MIN_SHARE = 0.06
_LEAD = 1.25
_WORD = re.compile(r"[^\W\d_]+")

# Words that are in few of the lists are the best evidence.
_FREQUENT_WORDS = {
    "en": "the of and to in is that for it was on are with as be this have from or by not you at "
    "which were has been will would can their there what your our we they but if all",
    "es": "el la los las y en que del se con por una su para es al lo como más pero sus le ya este "
    "sí porque esta entre cuando muy sin sobre también hasta hay donde quien desde todo nos según "
    "son fue está usted",
    "pt": "o os as e em que do da dos das não uma com para por mais ao na no nas nos se como mas "
    "foi é são pelo pela até isso entre depois sem mesmo aos seus quem já também só está você há "
    "ou ser sua seu",
    "pl": "i w na z do że nie się jest o to jak po co ale od za przez czy dla tego być przy tym "
    "oraz są było już tylko może ich pod jego który która które lub także więc ze jej",
    "de": "der die das und ist nicht ein eine zu den von mit für auf dem sich des im auch als an "
    "es werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum "
    "haben nur oder aber vor zur bis mehr durch wir kein ihre ihr bitte",
    "fr": "le la les et des en un une du est que qui dans pour pas au sur ne plus par se ce avec "
    "sont il cette aux ou nous vous mais ses son leur elle été être fait comme même ces entre "
    "sans où était votre notre je",
    "it": "il di che è la e un per non una sono con del della si da come le dei nel alla più anche "
    "gli dal lo delle ma questo ed al suo ha essere loro nella sul se stato",
    "nl": "de het een van en in is dat op te zijn met voor niet aan er om ook als bij of maar door "
    "uit naar wordt dit werd nog deze hij hebben kan over tot zich worden heeft wij",
}


_LANGUAGES: dict[str, tuple[str, ...]] = {}  # of a word
for _language, _words in _FREQUENT_WORDS.items():
    for _word in _words.split():
        _LANGUAGES[_word] = (*_LANGUAGES.get(_word, ()), _language)
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ar", re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("uk", re.compile("[іїєґІЇЄҐ]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
# Of languages that share a script, fewer letters of their own are enough.
_OWN_LETTERS = {"ja": 0.1, "uk": 0.02}
_SCRIPT_SHARE = 0.4


def language_of(text: str) -> str | None:
    """Return the two-letter code of the main language; None if that is not certain."""
    sample = text[:_SAMPLE_CHARACTERS]
    letters = sum(map(str.isalpha, sample))
    if not letters:
        return None
    return _by_script(sample, letters) or _by_words(sample)


def _by_script(sample: str, letters: int) -> str | None:
    if sample.isascii():
        return None
    for language, script in _SCRIPTS:
        share = len(script.findall(sample)) / letters
        if share >= _OWN_LETTERS.get(language, _SCRIPT_SHARE):
            return language
    return None


def _by_words(sample: str) -> str | None:
    words = _WORD.findall(sample.lower())
    hits = Counter[str]()
    for word in words:
        for language in _LANGUAGES.get(word, ()):
            # A word of several languages counts less for each.
            hits[language] += 4 // len(_LANGUAGES[word]) or 1
    if not hits:
        return None
    (first, most), (_, second) = [*hits.most_common(2), ("", 0)][:2]
    enough = most >= 4 * max(_MIN_HITS * 0.75, _MIN_SHARE * len(words))
    return first if enough and most >= _LEAD * second else None
