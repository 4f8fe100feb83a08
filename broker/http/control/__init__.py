"""The control channel: the pages below ``/v1/`` that our own commands ask.

This folder has these pages and the token that guards them. The client side is in `broker.commands`.
"""
