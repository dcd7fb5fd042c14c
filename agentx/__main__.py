"""Entry point of `agentx` and of `python -m agentx`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from agentx.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
