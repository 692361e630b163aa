"""Files as people have them, on their way to becoming data sets: found, read, checked, drafted."""
