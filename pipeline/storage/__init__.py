"""Where sources are read from: local disk, object stores and web servers, behind one small protocol."""
