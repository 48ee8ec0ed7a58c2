"""Translations for customers: texts, numbers, durations and times.

The catalogues are the `.po` files of this package; each is read when its language is first used.
"""

from fairlead.i18n.languages import LANGUAGES, language_of, negotiate
from fairlead.i18n.translator import Translator, translator

__all__ = ["LANGUAGES", "Translator", "language_of", "negotiate", "translator"]
