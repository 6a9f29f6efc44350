"""The DICOM file format: elements, transfer syntaxes, pixel data."""
