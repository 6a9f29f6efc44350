"""Whole-slide images: what a vendor's readers need is copied, everything else is left behind."""
