# SPDX-License-Identifier: GPL-2.0-only
"""What every unit test may use."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.packages import lock
from tests.unit.diskd_library import library
from tests.unit.kernel_samples import Repository


@pytest.fixture(scope="session")
def lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The C parts of the in-guest disk."""
    return library(tmp_path_factory.mktemp("diskd"))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    cache = Cache(tmp_path / "cache")
    yield cache
    cache.close()


@pytest.fixture
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A lock that a test writes."""
    monkeypatch.setattr(lock, "FILE", tmp_path / "own.lock")
    lock.forget()
    yield
    lock.forget()


@pytest.fixture
def repository(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Repository]:
    """A signed archive that is Debian's and Ubuntu's mirror."""
    # gpg's agent has a socket in its home, and a socket's path must be short.
    made = Repository(tmp_path / "archive", tmp_path_factory.mktemp("g") / "h")
    made.make_key()
    for name in ("DEBIAN", "UBUNTU"):
        monkeypatch.setenv(f"BLKLAB_{name}_MIRROR", made.uri)
        monkeypatch.setenv(f"BLKLAB_{name}_SECURITY_MIRROR", made.uri)
        monkeypatch.setenv(f"BLKLAB_{name}_KEYRING", str(made.keyring))
    yield made
    made.stop()
