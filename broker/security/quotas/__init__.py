"""Quotas: limits for users, client ids and addresses, and how much of them is used."""
