"""The stage that replaces images by synthetic ones."""
