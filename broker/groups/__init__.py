"""Groups of consumers: their members, assignments and committed offsets."""
