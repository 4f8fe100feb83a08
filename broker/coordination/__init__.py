"""Code that the coordinators of groups and of transactions share.

Here go the journal that both write their state into and the place that makes both. What is written
is in `broker.groups` and `broker.transactions`.
"""
