"""What customers read, in their own language: sentences, numbers, lengths of time, times.

The catalogues are the `.po` files beside this page, read when their language is first asked for.
"""

from fairlead.i18n.negotiate import LANGUAGES, language_of, negotiate
from fairlead.i18n.translator import Translator, translator

__all__ = ["LANGUAGES", "Translator", "language_of", "negotiate", "translator"]
