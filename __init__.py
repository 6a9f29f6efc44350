"""medsanitize: turn an export of medical images into a dataset that may be published."""

from medsanitize.offline import keep_offline

__version__ = "0.1.0"
__all__ = ["__version__"]

keep_offline()  # before any library is imported, in whatever process this is
