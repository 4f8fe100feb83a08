"""The files of a log directory as text: ``siltstone dump-log``.

This folder has a module for each kind of file that can be printed. No code here writes files.
"""
