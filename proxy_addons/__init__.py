"""Capture: a mitmproxy addon, its spool, and what reads the wire."""
