"""Engines beside the one of this machine: a Ray cluster, and a function for Spark."""
