"""How good synthetic images are: like the real ones, as varied, as useful; all figures with intervals."""
