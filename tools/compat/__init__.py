"""Runs public test suites of Kafka's clients against a broker (`make compat`).

One module for each suite: where it is from, how it is built, and how one test of it is run.
"""
