"""The jobs of ``python -m pipeline``: plain functions over an engine, one module each."""
