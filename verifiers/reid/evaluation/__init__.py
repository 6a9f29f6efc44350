"""How well a model finds the same patient again: metrics, intervals, subgroups, a page with plots."""
