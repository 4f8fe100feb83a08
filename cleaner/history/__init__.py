"""The work of past passes: the file of their receipts, and the numbers for metrics.

This folder has code that writes or counts after a pass, and code that reads the results later.
"""
