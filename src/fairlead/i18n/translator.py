"""Translates texts, and formats numbers and times, for one language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cache

from fairlead.errors import Message
from fairlead.i18n.catalogue import catalogue
from fairlead.i18n.languages import DEFAULT, FORMATS, LANGUAGES
from fairlead.i18n.texts import FORECAST, FORECAST_NOW, LENGTHS, MOST_AHEAD
from fairlead.model.explanations import CustomerAhead, Forecast, Reason
from fairlead.policy.explain import DURATIONS, PHRASES, WORDS, Plural, duration
from fairlead.policy.failures import SENTENCES


@cache
def translator(language: str) -> Translator:
    """The translator of one of our languages; English for any other."""
    return Translator(language if language in LANGUAGES else DEFAULT)


class Translator:
    """Translates into one language. A text without translation stays English."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._format = FORMATS[language]
        self._texts = {} if language == DEFAULT else catalogue(language)  # English is the source

    def reason(self, reason: Reason) -> str:
        """A reason of an explanation as a sentence."""
        params = dict(reason.params)
        if reason.code == "failed" and self.language != DEFAULT:
            params["detail"] = self.failure(params["error"])
        values = self._all_formatted(params)
        values |= {
            name: duration(params[param], self.number)
            for name, param in DURATIONS.items()
            if param in params
        }
        for name, plural in PHRASES.items():
            if plural.by in params:
                values[name] = self._plural_form(plural, params[plural.by]).format(**values)
        return self._translated(WORDS[reason.code]).format(**values)

    def failure(self, code: str) -> str:
        """The sentence for the customer about a failure code."""
        return self._translated(SENTENCES.get(code, code))

    def message(self, text: str) -> str:
        """A message in this language; text that is not a `Message` stays as it is."""
        if not isinstance(text, Message):
            return text
        params = dict(text.params)
        if "detail" in params and self.language != DEFAULT:  # English: the reader's own sentence
            params["detail"] = self.failure(params["error"]).rstrip(".")
        return self._translated(text.template).format(**self._all_formatted(params))

    def forecast(self, forecast: Forecast, now: float) -> str:
        """When a document is expected to start, as a sentence."""
        if forecast.high - now < 1:
            return self._translated(FORECAST_NOW)
        expected, low, high = (
            self.short_duration(max(0.0, at - now))
            for at in (forecast.expected, forecast.low, forecast.high)
        )
        number, _, unit = low.partition(" ")
        if high.endswith(f" {unit}"):
            low = number  # "1 to 6 min"
        return self._translated(FORECAST).format(expected=expected, low=low, high=high)

    def most_ahead(self, most: Sequence[CustomerAhead]) -> str:
        """The customers with documents ahead in the queue, as a sentence."""
        names = ", ".join(f"{other.customer} ({self.number(other.documents)})" for other in most)
        return self._translated(MOST_AHEAD).format(most=names)

    def text(self, text: str, **params: object) -> str:
        """A text of a page, with its parameters."""
        translated = self._translated(text)
        return translated.format(**self._all_formatted(params)) if params else translated

    def count(self, one: str, other: str, number: int, **params: object) -> str:
        """A text of a page with plural forms for the parameter `{number}`."""
        form = self._plural_form(Plural("number", one, other), number)
        return form.format(**self._all_formatted(params | {"number": number}))

    def number(self, value: float) -> str:
        """A number with thousands separators and a real minus sign."""
        form = self._format
        plain = f"{abs(value):,}" if abs(value) >= form.least_grouped else f"{abs(value)}"
        separators = str.maketrans({",": form.group, ".": form.decimal})
        return ("−" if value < 0 else "") + plain.translate(separators)

    def amount(self, value: float) -> str:
        """As `number`, without decimals if the value is whole."""
        return self.number(int(value) if float(value).is_integer() else value)

    def duration(self, seconds: float) -> str:
        """A duration in words, such as 3 minutes."""
        size = next((size for size in LENGTHS if round(seconds) >= 2 * size), 1)
        number = round(seconds / size)
        return self._plural_form(LENGTHS[size], number).format(number=self.number(number))

    def short_duration(self, seconds: float) -> str:
        """A duration with the symbols that all our languages share, such as 3 min."""
        return duration(seconds if seconds >= 1 else round(seconds), self.number)

    def span(self, seconds: float) -> str:
        """As `short_duration`, with tenths or milliseconds if it is shorter than ten seconds."""
        if 0 < seconds < 0.1:
            return f"{self.number(max(1, round(1000 * seconds)))} ms"
        tenths = round(max(0.0, seconds), 1)
        return f"{self.number(tenths)} s" if 0 < tenths < 10 else self.short_duration(tenths)

    def size(self, size: int) -> str:
        """A number of bytes with the unit that gives one to three digits, such as 20.9 MB."""
        value, unit = float(size), "B"
        for larger in ("kB", "MB", "GB", "TB"):
            if value < 1000:
                break
            value, unit = value / 1024, larger
        digits = 1 if unit != "B" and value < 99.95 else 0
        return f"{self.amount(round(value, digits))} {unit}"

    def balance(self, seconds: float) -> str:
        """A duration with its sign: + for ahead, − for behind."""
        sign = "+" if seconds > 0 else "−" if seconds < 0 else ""
        return sign + self.span(abs(seconds))

    def instant(self, seconds: float, zone: tzinfo = UTC) -> str:
        """A time to the second, with the name of its zone."""
        return f"{datetime.fromtimestamp(seconds, zone):{self._format.time}:%S %Z}"

    @property
    def separators(self) -> tuple[str, str, int]:
        """The decimal mark, the mark between thousands, and the first number that has one."""
        return self._format.decimal, self._format.group, self._format.least_grouped

    def _translated(self, text: str) -> str:
        return self._texts.get(text, (text,))[0]

    def _plural_form(self, plural: Plural, number: int) -> str:
        forms = self._texts.get(plural.one)
        if forms is None or len(forms) != self._format.forms:
            return plural.one if number == 1 else plural.other
        return forms[self._format.form(abs(number))]

    def _all_formatted(self, params: Mapping[str, object]) -> dict[str, str]:
        return {name: self._formatted(value) for name, value in params.items()}

    def _formatted(self, value: object) -> str:
        if isinstance(value, Message):
            return self.message(value)
        if isinstance(value, list):
            return "; ".join(map(self._formatted, value))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.number(value)
        return str(value)
