"""Federated training: one server, several sites, and sums under secure aggregation."""
