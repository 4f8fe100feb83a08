"""The process around the broker: its start and end, log lines, limits, threads that wait.

Here goes code that every part of the broker may use and that knows no part of it.
"""
