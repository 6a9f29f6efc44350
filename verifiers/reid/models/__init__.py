"""Models that say whether two images are of one patient: their folders, networks and packaged defaults."""
