"""The embedded traces that `agentx demo` replays (see NOTICE).

Three real Claude Code sessions in weka's form, as published: 225 requests, half of them over
60,000 tokens, none over 95,000; in `trace_0277` three subagents run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

TRACES = ("trace_0272.json.gz", "trace_0277.json.gz", "trace_0321.json.gz")


@contextmanager
def sample_folder() -> Iterator[Path]:
    """A folder with the traces in it, for as long as the block runs; `import_weka` reads it."""
    with as_file(files(__name__)) as folder:
        yield folder
