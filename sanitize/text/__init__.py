"""Free text: identifiers are cut and the rest stays, or only a controlled vocabulary stays."""
