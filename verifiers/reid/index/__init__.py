"""Nearest-neighbor search among embeddings: exact up to a million, then approximate and measured."""
