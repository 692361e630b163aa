"""How the server combines what clients send."""
