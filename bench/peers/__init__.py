"""Fairlead beside other queues, with the same no-op work: `make bench-peers`.

Each measurement starts from a fresh queue that is filled beforehand. Worker processes drain it;
the benchmark reads their progress, their CPU time and that of the server while they do so.
"""
