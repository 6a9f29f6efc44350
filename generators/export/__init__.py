"""Synthetic images as objects of a release: DICOM, or PNG with a sidecar."""
