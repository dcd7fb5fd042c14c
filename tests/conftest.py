"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Time is not what these tests are about, and the machine may be busy.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """The small cases that travel with the repository."""
    return ROOT / "tests" / "fixtures"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared cases, which a user's clone does not have."""
    if not SHARED.is_dir():
        skip_or_fail("the shared cases (../shared) are not here")
    return SHARED


def skip_or_fail(reason: str) -> None:
    """Skip where something outside the repository is missing, but fail where CI forbids skips."""
    if os.environ.get("AGENTX_SKIP_NOTHING"):
        pytest.fail(reason)
    pytest.skip(reason)
