"""The simulator: the rules of the queue, run over a trace in virtual time.

Nothing here reads a clock, and only `trace` and `report` read files.
"""
