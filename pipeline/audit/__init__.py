"""Holding a log against the rules: its files by themselves, and two moments of it by each other."""
