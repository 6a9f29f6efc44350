"""medsanitize: turn an export of medical images into a dataset that may be published."""

__version__ = "0.1.0"
__all__ = ["__version__"]
