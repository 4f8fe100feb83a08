"""Record batches (magic 2): the 61-byte header, records, codecs and the compiled kernels."""
