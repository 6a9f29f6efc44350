"""Images as a model sees them: read from DICOM, slides, PNG, JPEG and TIFF by one function."""
