"""Whether two releases share images, without showing either: the protocol of the two sides."""
