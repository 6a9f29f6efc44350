"""PNG, JPEG and TIFF files: metadata gone, pixels as the policy says."""

from medsanitize.sanitize.raster.sanitizer import is_raster, peek_raster, sanitize_raster

__all__ = ["is_raster", "peek_raster", "sanitize_raster"]
