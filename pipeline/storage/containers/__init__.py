"""Files inside archives, compressed files and disk images, as sources of a run."""
