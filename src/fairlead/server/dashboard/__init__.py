"""The dashboard: pages that work without scripts, and a stream that keeps them up to date.

`last_hour` keeps figures of the last hour in memory, and `live_view` sends changes to viewers.
`rows`, `charts` and `timeline` turn records into values for templates and streams. `page` renders
templates. The other modules have the routes.
"""
