"""Settings that can be changed while the broker runs.

Here goes how they are changed, kept in the catalogue, and found by the code that obeys them. What a
setting is called and may be is in `config`.
"""
