"""Whether two datasets share patients: equal images, alike images, and what may be concluded."""
