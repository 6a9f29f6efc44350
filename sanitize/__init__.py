"""One object in, one sanitised object and its record out."""
