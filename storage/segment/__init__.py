"""One segment: its four files, reading them, and repairing them after a crash.

This folder has code that knows one segment and nothing about the log around it.
"""
