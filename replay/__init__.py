"""Replay of a data set against a live endpoint: plan, session state machine, transport, measurement."""
