"""The commands of ``siltstone``: a file each, and one table of them all.

A file has ``run_NAME`` and ``add_NAME`` of its commands. Here go also the things that they share:
the parser, the options, asking a running broker, and printing for a person.
"""
