"""``siltstone topics``, ``groups``, ``produce`` and ``consume``: a file each.

They speak Kafka's protocol to one broker, through the client of the pipeline.
"""
