"""Settings that can be changed while the broker runs.

This package changes the settings, keeps them in the catalogue, and gives them to the code that
obeys them. The names and the allowed values of settings are in `config`.
"""
