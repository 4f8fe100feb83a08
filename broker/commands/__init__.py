"""The commands of ``siltstone``: one file for each command, and a table of all commands.

A file has the functions ``run_NAME`` and ``add_NAME`` for its commands. This folder also has what
commands share: the parser, the options, asking a running broker, and printing for a person.
"""
