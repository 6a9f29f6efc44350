"""Released objects as foreign readers see them, compared with their sources."""
