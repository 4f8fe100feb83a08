"""What Spark itself needs: its session, its Java, the interpreter of its workers.

Here goes what is particular to running Spark on a machine. The data source is `pipeline.source`.
"""
