"""Steps: the user's own functions, declared, loaded and run in processes of their own.

`declare` and `job` are what the user's function sees, `reference` and `load` find it by name,
`process_main` runs it. `pool` is what the engine holds, with the records in `outcomes`. Nothing
here knows the store; neither the engine nor the API server imports the user's module.
"""
