"""The policy language: model, strict loading, presets, tables of the standard."""
