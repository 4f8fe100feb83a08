"""The commands of ``siltstone`` besides ``serve``: a file each.

Here go also the two things that they share: asking a running broker, and printing for a person.
"""
