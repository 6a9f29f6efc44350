"""PNG, JPEG and TIFF files: metadata gone, pixels as the policy says."""
