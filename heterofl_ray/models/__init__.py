"""Models that can be built at any width, and the layouts that say how they are cut."""
