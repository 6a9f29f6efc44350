"""The JPEG file format: markers, tables, entropy-coded data."""
