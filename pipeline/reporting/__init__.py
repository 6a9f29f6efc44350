"""How a run is reported: console, logs, metrics, how it ended."""
