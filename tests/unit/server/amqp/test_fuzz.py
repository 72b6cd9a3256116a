# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cproton_ffi", reason="python-qpid-proton, of the extra amqp, is not installed")

TESTS = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024


def attack(folder: Path, seed: int, frames: int, timeout_s: float) -> None:
    # In a process of its own: a mistake of the engine's may end it.
    finished = subprocess.run(
        [sys.executable, "-m", "unit.server.amqp.fuzz", str(folder), str(seed), str(frames)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["mistakes"] == [], f"seed {result['last_seed']}"
    assert result["frames"] >= frames
    assert result["longest_s"] < 1.0
    assert result["growth_bytes"] < 64 * MIB
    assert result["left"] == [0, 0, 0]


def test_twenty_thousand_frames_of_rogues_harm_nobody(tmp_path: Path) -> None:
    attack(tmp_path, 0, 20_000, 360)


@pytest.mark.torture
@pytest.mark.parametrize("seed", [1_000_000, 2_000_000])
def test_a_million_frames_of_rogues_harm_nobody(tmp_path: Path, seed: int) -> None:
    attack(tmp_path, seed, 1_000_000, 3600)
