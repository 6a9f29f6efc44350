"""Questions about single images that the answering party never sees."""
