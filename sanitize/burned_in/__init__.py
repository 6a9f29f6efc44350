"""Burned-in text (PS3.15 E.3.1): detection, recognition, classification and blanking."""
