"""The shipped presets."""
