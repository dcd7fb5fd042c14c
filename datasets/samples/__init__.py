"""The embedded traces that `agentx demo` replays (see NOTICE)."""
