"""The desk: a web application for a data steward, on the public API alone."""
