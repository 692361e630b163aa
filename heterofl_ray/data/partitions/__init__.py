"""Which examples belong to which client: dealing, files workers share, statistics, pictures."""
