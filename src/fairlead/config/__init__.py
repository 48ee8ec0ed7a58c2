"""Settings and the data folder."""
