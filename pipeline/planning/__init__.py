"""From options to splits: offsets, files, and how they are cut into tasks.

This folder has the decisions before the first record is read.
"""
