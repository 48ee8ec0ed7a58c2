"""HTTP for customers and operators: thin, over the same functions as the command line.

Async only here. Whatever may wait for a disk or a database goes through a bounded pool of threads.
"""
