"""Checks a log by its rules: each file, and two moments of the log against each other."""
