"""Rules of other de-identification programs, read into one form."""
