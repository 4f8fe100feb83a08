"""Every metric of the broker, and the text that Prometheus reads.

This folder has the tables of metrics, one file for each area, and the writer of their text. The
counters themselves belong to the parts of the broker that count.
"""
