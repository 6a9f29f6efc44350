"""The demo: a synthetic hospital export with planted identifiers, and its release."""
