"""From options to splits: offsets, files, and how they are cut into tasks.

Here goes what is decided before the first record is read.
"""
