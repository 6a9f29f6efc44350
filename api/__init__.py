"""Public API: de-identify single objects, run policies, read and verify releases."""
