"""De-identification of free text: identifiers are cut, or only a controlled vocabulary is kept."""
