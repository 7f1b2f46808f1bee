"""The guarantees as SQL over a home's tables: each check is one file, and its rows are what breaks
it. `checks.py` reads the files, `views.py` makes what they ask."""
