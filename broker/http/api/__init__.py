"""JSON for the web page, under ``/api/``: one file for each view. Read-only.

docs/http.md describes every answer. Nothing in this folder changes any state.
"""
