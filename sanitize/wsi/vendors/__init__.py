"""One module a vendor: what its readers need, and where its formats keep people."""
