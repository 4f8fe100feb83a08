"""The control channel: the pages below ``/v1/`` that our own commands ask.

Here goes each of these pages and the token that guards them. The asking side is in
`broker.commands`.
"""
