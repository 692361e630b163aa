"""Several methods on one data set: which runs there are, and what makes them comparable."""
