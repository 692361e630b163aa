"""Native code of our own, which compiled steps call where torch's compiler and library are slow."""
