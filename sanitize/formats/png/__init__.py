"""The PNG file format."""
