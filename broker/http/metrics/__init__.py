"""Every metric of the broker, and the text that Prometheus reads.

Here go tables of metrics, a file for each area, and how they are written out. The counters
themselves belong to the parts that count.
"""
