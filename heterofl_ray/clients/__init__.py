"""What runs where the clients are: losses, local training, jobs."""
