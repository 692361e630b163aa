"""A level's model as a file that needs nothing of this package."""
