"""Found by Spark on its own: ``spark.read.format("siltstone")`` needs no registration."""
