"""The process around the broker: its start and end, log lines, limits, threads that wait.

Here goes what every part of the broker may use and what knows none of them.
"""
