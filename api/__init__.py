"""The public API: de-identify single objects, run policies, read and check releases."""
