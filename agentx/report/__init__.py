"""A run as one self-contained page and as tables."""
