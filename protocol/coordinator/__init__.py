"""The records that coordinators write into their internal topics, their keys and places."""
