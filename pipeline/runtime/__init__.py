"""What every part of a run shares: progress, signals, results, encryption."""
