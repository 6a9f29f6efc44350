"""One module per slide format: what its readers need and where it stores identifiers."""
