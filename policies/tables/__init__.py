"""Generated tables of the standard; see README.md in this folder."""
