"""Linkage attack and guidelines A1 to A7 of Holub et al. 2023."""
