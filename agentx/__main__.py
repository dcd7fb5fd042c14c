"""Entry point of `agentx` and of `python -m agentx`."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line and exit with its status."""
    if find_spec("agentx.datasets") is None:
        sys.exit(
            "agentx: this copy of the source has lost its symbolic links (a ZIP download does); "
            "use git clone with core.symlinks on."
        )
    from agentx.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
