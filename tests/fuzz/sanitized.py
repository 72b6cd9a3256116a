# SPDX-License-Identifier: Apache-2.0
"""The compiled modules built with AddressSanitizer, in a folder of their own, and processes that run with it.

pip builds them as it builds a wheel; gcc says where its sanitizer is, which
a Python that was built without it loads first (LD_PRELOAD).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .frames import READERS, Count, Last, plain_put

ROOT = Path(__file__).parents[2]
FINDINGS = Path("fuzz-findings")
_SOURCES = ("src", "pyproject.toml", "README.md", "LICENSE")
_FLAGS = "-fsanitize=address -fno-omit-frame-pointer -g -O1"


class NotSanitized(Exception):
    """There is no compiler with a sanitizer here, or it has not done its work."""


def build(folder: Path) -> dict[str, str]:
    """Build the package into a folder; the environment in which Python finds it there.

    Raises:
        NotSanitized: A campaign would show nothing.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        raise NotSanitized("gcc is not installed")
    found = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = Path(found.stdout.strip()).resolve()
    if not library.is_file() or not library.read_bytes().startswith(b"\x7fELF"):
        raise NotSanitized(f"gcc has no AddressSanitizer at {library}")
    source = folder / "source"
    source.mkdir()
    leave_out = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    for name in _SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=leave_out)
        else:
            shutil.copy2(path, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    flags = {"CC": compiler, "CFLAGS": _FLAGS, "LDFLAGS": "-fsanitize=address"}
    subprocess.run([*command, "-w", str(folder), str(source)], env=os.environ | flags, check=True)
    [wheel] = folder.glob("*.whl")
    package = folder / "package"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    for pyx in (ROOT / "src/entrepot/compiled").glob("*.pyx"):
        built = list((package / "entrepot/compiled").glob(f"{pyx.stem}.*.so"))
        if not built or b"__asan_init" not in built[0].read_bytes():
            raise NotSanitized(f"{pyx.name} was not compiled with AddressSanitizer")
    return os.environ | {
        "PYTHONPATH": f"{package}{os.pathsep}{ROOT / 'tests'}",
        "LD_PRELOAD": str(library),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",  # so that it sees every object of its own
        "ENTREPOT_PURE": "",
    }


def campaign(
    seed: int, runs: int, processes: int, *, sanitize: bool, file: Path | None = None, reader: str = "server"
) -> int:
    """Fuzz in several processes, or hear a file once; 1 if there was a finding."""
    processes = processes or os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name:
        folder, environment = Path(name), dict(os.environ)
        if sanitize:
            environment = build(folder)
            require_eyes(folder, environment)
        if file is not None:
            return subprocess.run(
                [sys.executable, "-m", "fuzz.frames", str(file), "--reader", reader], env=environment, check=False
            ).returncode
        shares = [runs // processes + (index < runs % processes) for index in range(processes)]
        begun = time.monotonic()
        with ThreadPoolExecutor(processes) as pool:
            ended = list(
                pool.map(lambda index: _in_child(folder, environment, seed + index, shares[index]), range(processes))
            )
        seconds = time.monotonic() - begun
    looked_at = sum(count.looked_at for counts, _ in ended for count in counts.values())
    taken = sum(count.taken for counts, _ in ended for count in counts.values())
    findings = [finding for _, finding in ended if finding]
    how = " under AddressSanitizer" if sanitize else ""
    print(f"{looked_at:,} frames{how}, {taken:,} taken, {looked_at / seconds:,.0f} a second, {len(findings)} findings")
    for reader in READERS:
        heard = [counts[reader] for counts, _ in ended if counts]
        told = sum(count.looked_at for count in heard), sum(count.taken for count in heard)
        print(f"  {reader}: {told[0]:,} frames, {told[1]:,} taken")
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


def require_eyes(folder: Path, environment: dict[str, str]) -> None:
    """Hide the last byte of a frame: who reads it must be ended, or nothing would be found at all.

    Raises:
        NotSanitized: It went unnoticed.
    """
    frame = folder / "frame"
    frame.write_bytes(plain_put())
    command = [sys.executable, "-m", "fuzz.frames", str(frame)]
    heard = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if heard.returncode != 0:
        raise NotSanitized(f"a frame that is right was not heard:\n{heard.stderr[-3000:]}")
    ended = subprocess.run([*command, "--hidden", "1"], env=environment, capture_output=True, text=True, check=False)
    if ended.returncode == 0 or "AddressSanitizer: use-after-poison" not in ended.stderr:
        raise NotSanitized(f"a byte that was hidden has been read, and nobody noticed:\n{ended.stderr[-3000:]}")


def _in_child(folder: Path, environment: dict[str, str], seed: int, runs: int) -> tuple[dict[str, Count], str]:
    """What was looked at and taken, and what was found."""
    path = folder / f"last-{seed}"
    command = [sys.executable, "-m", "fuzz.frames", "--inside", str(path), "--seed", str(seed), "--runs", str(runs)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if ended.returncode == 0:
        numbers = iter(map(int, ended.stdout.split()))
        return {reader: Count(next(numbers), next(numbers)) for reader in READERS}, ""
    data, reader, counts = Last.read(path) if path.exists() else (b"", READERS[0], {})
    FINDINGS.mkdir(exist_ok=True)
    kept = FINDINGS / f"frames-{reader}-{seed}"
    kept.write_bytes(data)
    again = f"Run it again: PYTHONPATH=tests {sys.executable} -m fuzz.frames {kept} --reader {reader} --sanitized"
    return counts, f"--- seed {seed}, ended with {ended.returncode}\n{ended.stderr[-6000:]}\n{again}"
