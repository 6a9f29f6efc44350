"""Whether a release still identifies anyone: an audit by a reader of its own."""
