"""Benchmarks: `make bench`. Ratios count; rates depend on the machine."""
