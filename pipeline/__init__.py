"""The run: inventory, stages in order, state, gates."""
