"""How messages travel: HTTPS with certificates of both sides, or files in a folder."""
