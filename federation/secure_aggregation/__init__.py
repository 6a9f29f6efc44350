"""Secure aggregation: sums of the vectors of several parties, of which nobody sees a single one."""
