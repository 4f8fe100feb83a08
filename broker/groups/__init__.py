"""Groups: who reads what together, and how far they have come."""
