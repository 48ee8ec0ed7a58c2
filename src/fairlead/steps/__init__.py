"""Steps: the user's own functions, declared, loaded and run in processes of their own.

`declare` and `job` are the API of the user's function, `reference` and `load` find it by name, and
`process_main` runs it. The engine uses `pool`, and the records in `outcomes`. Nothing here uses the
store; neither the engine nor the API server imports the user's module.
"""
