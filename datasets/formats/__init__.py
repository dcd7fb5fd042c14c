"""One module a foreign trace format."""
