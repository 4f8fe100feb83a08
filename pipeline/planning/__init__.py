"""From options to splits: offsets, files, and how they are cut into tasks.

Here go the decisions before the first record is read.
"""
