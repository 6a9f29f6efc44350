"""Generators of the tables in ``policies/tables``, run by maintainers."""
