"""`agentx import weka` beside the least that any import must do: read the bytes, parse the JSON.

On the traces of ../shared, or, where they are absent, on copies of the embedded ones.

    python -m benchmarks import_weka
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces" / "weka"
COPIES = 40
RUNS = 3

_FLOOR = """
import gzip, sys
from pathlib import Path
import orjson
for path in sorted(Path(sys.argv[1]).glob("trace_*.json.gz")):
    orjson.loads(gzip.open(path).read())
"""
_IMPORT = "import sys; from agentx.cli import run; sys.exit(run(sys.argv[1:]))"
_REPORT = """
import atexit, json, resource
def _report():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
atexit.register(_report)
"""


def main() -> dict[str, Any]:
    """Measure, print what was found, and return the figures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = SHARED if SHARED.is_dir() else _copies(folder / "traces")
        paths = sorted(source.glob("trace_*.json.gz"))
        megabytes = sum(len(gzip.decompress(path.read_bytes())) for path in paths) / 1e6
        # The best of several: what else runs on the machine only ever adds.
        floor_s = min(_measure(_FLOOR, str(source))[0] for _ in range(RUNS))
        imports = [
            _measure(_IMPORT, "import", "weka", str(source), "-o", str(folder / f"data{run}"))
            for run in range(RUNS)
        ]
        tables = sum(map(_size, (folder / "data0").glob("*.parquet")))
        compressed = sum(map(_size, paths))
    import_s, rss_kb = min(imports)[0], max(rss for _, rss in imports)
    figures = {
        "MB of JSON": megabytes,
        "CPU s": import_s,
        "MB of JSON a CPU second (at least 20)": megabytes / import_s,
        "CPU time, of that of gzip and orjson alone": import_s / floor_s,
        "peak RSS, MB (below 500)": rss_kb / 1000,
        "gzip-compressed JSON to tables (at least 14)": compressed / tables,
    }
    for name, value in figures.items():
        print(f"import_weka: {name}: {value:,.2f}")
    return figures


def _measure(program: str, *arguments: str) -> tuple[float, int]:
    """CPU seconds and peak RSS in KB of a Python process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT + program, *arguments],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )
    seconds, kilobytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, kilobytes


def _size(path: Path) -> int:
    return path.stat().st_size


def _copies(folder: Path) -> Path:
    from agentx.datasets.samples import sample_folder

    folder.mkdir()
    with sample_folder() as samples:
        for path in samples.glob("*.json.gz"):
            for number in range(COPIES):
                (folder / f"{path.name.split('.')[0]}_{number}.json.gz").write_bytes(
                    path.read_bytes()
                )
    return folder


if __name__ == "__main__":
    main()
