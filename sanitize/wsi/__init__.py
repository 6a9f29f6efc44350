"""De-identification of whole-slide images: only what readers of the format need is copied."""
