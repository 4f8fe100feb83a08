"""Code that all coordinators share.

This package has the journal into which coordinators write their state, and the timers of
groups and queues. `broker.groups`, `broker.share` and `broker.transactions` define the records;
`broker.coordinators` creates the coordinators.
"""
