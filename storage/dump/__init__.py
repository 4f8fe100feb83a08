"""The files of a log directory as text, and whether they fit each other.

For ``siltstone dump-log`` this folder has a module for each kind of file that can be printed; for
``siltstone verify`` it checks all files of a partition. No code here writes files.
"""
