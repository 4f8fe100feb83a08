"""The files of a log directory as text: ``siltstone dump-log``.

Here goes a file for each kind of file that is printed. Nothing here writes.
"""
