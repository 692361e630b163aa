"""Ways to train a client: the plain one, and faster ones that are tested against it."""
