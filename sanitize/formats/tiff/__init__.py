"""The TIFF file format: reading, samples, pyramids, writing."""
