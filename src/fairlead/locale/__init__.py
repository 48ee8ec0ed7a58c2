LANGUAGES = ("en", "es", "pt", "pl", "de")
