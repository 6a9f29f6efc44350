"""The commands, one module a subject: parse, call, print, exit code. The work is done in the rooms."""
