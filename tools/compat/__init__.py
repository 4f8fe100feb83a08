"""Runs public test suites of Kafka's clients against a broker (`make compat`).

One module for each suite says where it is from, how it is built, and how one test is run.
"""
