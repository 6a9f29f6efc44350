"""Engines that run the workers: local processes, a Ray cluster, and the functions for Spark."""
