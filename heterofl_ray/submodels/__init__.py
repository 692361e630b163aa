"""Which part of the global model each client gets."""
