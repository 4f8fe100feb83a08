"""The records that coordinators write into their internal topics, and the keys of the records."""
