"""JSON for the page, under ``/api/``: a file each for what is shown together. Read-only.

docs/http.md describes every answer. Here goes nothing that changes anything.
"""
