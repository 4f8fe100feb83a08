"""Quotas: how much users, client ids and addresses may ask of the broker and have asked."""
