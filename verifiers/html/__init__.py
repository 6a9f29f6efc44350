"""Pages for the holder: one HTML file each, no network, no script, no file name and no patient on it."""
