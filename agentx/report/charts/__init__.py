"""The charts of a page, one module a question: pure functions from a run's arrays to a `Chart`."""
