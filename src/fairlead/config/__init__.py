"""Settings and the data folder."""

DEFAULT_DATA = "fairlead-data"
"""The data folder where none is named."""
