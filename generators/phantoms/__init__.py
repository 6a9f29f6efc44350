"""Patients made from numbers: chest-like radiographs and tissue-like slides to find people in."""
