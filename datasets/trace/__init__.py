"""The pure core of a trace: its model, its token stream, its blocks, and hit-rate arithmetic."""
