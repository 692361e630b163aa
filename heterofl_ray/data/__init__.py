"""Data sets as memory-mapped Arrow files, their partition over clients, and tensor batches."""
