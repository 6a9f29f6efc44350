"""Images as models read them, from DICOM, slides, PNG, JPEG and TIFF."""
