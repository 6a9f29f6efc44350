"""Commands that work without a run: comparisons, measurements, attacks, exports."""
