"""What the coordinators write into their internal topics: records, keys, and where they lie."""
