"""Plain records: what flows between the packages, each defined once."""
