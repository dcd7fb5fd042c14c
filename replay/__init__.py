"""Replay of a data set against a live endpoint: plan, session, text, transport, measurement."""
