"""How well and how fast documents are read: `python -m bench.readers FOLDER`."""
