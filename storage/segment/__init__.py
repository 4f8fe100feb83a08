"""One segment: its four files, reading them, and bringing them in order after a crash.

Here goes what knows one segment and nothing of the log around it.
"""
