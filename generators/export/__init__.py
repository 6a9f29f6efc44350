"""Export of synthetic images as DICOM objects, or as PNG files with a sidecar."""
