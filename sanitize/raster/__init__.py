"""PNG, JPEG and TIFF files: metadata gone, pixels as the policy says."""

from medsanitize.sanitize.raster.sanitizer import RasterSanitizer, is_raster, peek_raster

__all__ = ["RasterSanitizer", "is_raster", "peek_raster"]
