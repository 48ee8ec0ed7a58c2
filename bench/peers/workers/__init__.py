"""Programs that fill a queue and drain it, one module per library.

`python -m bench.peers.workers.NAME fill|work|submit …`. Modules of peers run in the peers'
environment and must not import Fairlead.
"""
