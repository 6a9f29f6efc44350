"""Search of a release for identifiers, with readers that share no code with the sanitizer."""
