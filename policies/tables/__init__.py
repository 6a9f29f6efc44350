"""Generated tables of the standard; see README.md beside them."""
