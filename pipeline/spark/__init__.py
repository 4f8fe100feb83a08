"""The needs of Spark itself: its session, its Java, the interpreter of its workers.

Here goes code for running Spark on a machine. The data source is `pipeline.source`.
"""
