"""Burned-in text: frames read, text found and judged, what identifies blanked, frames written back."""
