"""The HTTP port: the server itself, its pages, health and readiness.

Here goes what is the same for every page, and pages that are one file. Metrics and the control
channel have a folder each.
"""
