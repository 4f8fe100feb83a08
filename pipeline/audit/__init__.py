"""Checks a log by its rules: its files, and two moments of the log against each other."""
