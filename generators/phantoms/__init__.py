"""Procedural phantoms with known identity, for tests and benchmarks: chest radiographs and tissue slides."""
