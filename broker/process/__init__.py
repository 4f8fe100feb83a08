"""The process around the broker: its start and end, log lines, limits, threads that wait.

This folder has code that every part of the broker may use and that uses no part of it.
"""
