"""The jobs of ``python -m siltstone.pipeline``: plain functions over an engine, one module each."""
