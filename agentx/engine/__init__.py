"""The simulated engine: cache, timing and scheduler are pure; server gives them HTTP and a clock."""
