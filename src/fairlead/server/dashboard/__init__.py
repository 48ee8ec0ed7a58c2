"""The dashboard: pages that work without scripts, and a stream that keeps them up to date.

`last_hour` and `live_view` know what happened and what is shown; `rows`, `charts` and `timeline`
turn records into what templates and streams carry; the other modules are the pages.
"""
