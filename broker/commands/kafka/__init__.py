"""``siltstone topics``, ``groups``, ``produce`` and ``consume``: a file each.

They speak Kafka's protocol to one broker, by the client that the pipeline has.
"""
