"""Code that the coordinators of groups and of transactions share.

Here goes the journal that both write their state into. What is written is in `broker.groups` and
`broker.transactions`; `broker.coordinators` makes both.
"""
