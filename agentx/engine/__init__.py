"""The simulated engine: cache, timing, scheduler are pure; live and server add clock and HTTP."""
