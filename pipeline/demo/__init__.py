"""The demo: a made-up export with planted identifiers, and its release."""
