"""Bytes to exchanges: content encodings, event streams, and each API dialect."""
