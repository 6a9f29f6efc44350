"""Shared parts of every command: progress, cancellation, results, encryption."""
