"""AgentX: capture coding agents' traffic, keep it as prefix-aware traces, replay it, measure it."""

__version__ = "0.1.0"
