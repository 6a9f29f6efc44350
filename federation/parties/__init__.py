"""Who takes part: the keys of this hospital, and the partners that it trusts."""
