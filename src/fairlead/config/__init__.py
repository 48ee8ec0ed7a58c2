"""Settings and the data folder."""

DEFAULT_DATA = "fairlead-data"
"""The data folder if none is named."""
