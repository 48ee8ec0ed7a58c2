"""Pure rules: no clock, no I/O. Time and records are arguments."""
