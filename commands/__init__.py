"""The commands, one module per subject: they parse arguments, call the packages and print results."""
