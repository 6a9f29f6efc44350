"""Search among embeddings: exact up to about a million, then approximate and measured."""
