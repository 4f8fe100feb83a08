"""The HTTP port: the server itself, its pages, health and readiness.

This folder has the code that all pages share, and the pages that need one file. Metrics and the
control channel have a folder each.
"""
