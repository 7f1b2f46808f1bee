"""What all tests share: how Hypothesis runs here, and what the crash rounds are drawn from."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

# The crash tests' clients are made of the gateway tests' peers.
sys.path.append(str(Path(__file__).parent / "gateway"))

# A failure prints what replays it. There is no deadline: builds share their machine with others.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=7, help="what crash rounds do (default 7)")


@pytest.fixture
def crash_seed(request: pytest.FixtureRequest) -> int:
    """What a crash round is drawn from, besides its name."""
    return int(request.config.getoption("--seed"))
