"""Training of the network that finds burned-in text in any script (`medsanitize.sanitize.burned_in`)."""
