"""Self-contained HTML reports: one file each, without scripts, external resources, file names or patients."""
