"""The dashboard: pages that work without scripts, and what keeps them up to date with them.

`past` and `board` know what happened and what is shown, `rows` and `charts` turn records into what
templates and streams carry, `routes` are the pages.
"""
