"""Code that the coordinators of groups and of transactions share.

This package has the journal into which both coordinators write their state, and their timers. `broker.groups` and
`broker.transactions` define the records; `broker.coordinators` creates both coordinators.
"""
