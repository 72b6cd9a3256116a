# SPDX-License-Identifier: Apache-2.0
"""Where a run takes place: what its figures depend on, and a fingerprint of the host.

Figures of hosts with different fingerprints are never divided by each
other. The fingerprint covers the machine (processor, cores, memory, kernel,
disk) and not its versions of software, which are recorded beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import threading
import time
from importlib import metadata
from pathlib import Path

from entrepot.workbench.measuring.sampler import device_of

_PACKAGES = ("entrepot", "pyspark", "pyarrow", "numpy", "uvloop", "pika", "stomp.py", "nats-py", "redis", "psycopg")
_FORCES = 50
_FORCE_BYTES = 4096
_STREAM_BYTES = 32 * 1024 * 1024
_LOOPBACK_BYTES = 64 * 1024 * 1024
_LOOPBACK_CHUNK_BYTES = 1024 * 1024
_LOOPBACK_TRIES = 2
_LOOPBACK_S_MAX = 5.0
HOST_KEYS = ("host", "machine", "cpu", "cores", "memory_gib", "kernel", "file_system")


def describe(folder: Path) -> dict[str, str]:
    """Of this machine and this software; measures what the disk below `folder` and the loopback network can do."""
    found = {
        "host": platform.node(),
        "machine": _machine_id(),
        "cpu": _cpu(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory_gib": str(round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)),
        "kernel": platform.release(),
        "file_system": _file_system(folder),
        "device": device_of(folder) or "none",
        "python": platform.python_version(),
        "java": _java(),
        "commit": _commit(),
        "source": source_digest(),
        "load_average": f"{os.getloadavg()[0]:.2f}",
    }
    found |= {f"version of {name}": _version(name) for name in _PACKAGES}
    return found | force_latency(folder) | loopback_bandwidth()


def busy_reason() -> str:
    """What other processes take from a measurement just now; empty on a machine that has time."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"the machine is busy: load {load:.1f} on {cores} processors" if load > cores else ""


def fingerprint(environment: dict[str, str]) -> str:
    """The host, short enough to stand in a table."""
    facts = "\n".join(f"{key}={environment.get(key, '')}" for key in HOST_KEYS)
    return f"{environment.get('host', 'host')}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


def force_latency(folder: Path) -> dict[str, str]:
    """Median and longest of 50 writes of 4 KiB with fdatasync, and the bandwidth of a long one."""
    path = folder / f".force-{os.getpid()}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, bytes(_FORCES * _FORCE_BYTES))
        os.fsync(descriptor)
        took_ms = []
        for index in range(_FORCES):
            begun = time.perf_counter()
            os.pwrite(descriptor, os.urandom(_FORCE_BYTES), index * _FORCE_BYTES)
            os.fdatasync(descriptor)
            took_ms.append((time.perf_counter() - begun) * 1000)
        chunk = os.urandom(1024 * 1024)
        begun = time.perf_counter()
        for offset in range(0, _STREAM_BYTES, len(chunk)):
            os.pwrite(descriptor, chunk, offset)
        os.fdatasync(descriptor)
        bandwidth = _STREAM_BYTES / (time.perf_counter() - begun)
    finally:
        os.close(descriptor)
        path.unlink()
    return {
        "force_ms_median": f"{statistics.median(took_ms):.3f}",
        "force_ms_max": f"{sorted(took_ms)[-1]:.3f}",
        "write_bytes_per_s": f"{bandwidth:.0f}",
    }


def loopback_bandwidth() -> dict[str, str]:
    """What TCP over loopback carries in large writes when both ends have a core each; nothing where there is none.

    By the processor time of the end that needs more of it: the network of one
    machine is nothing but copying, and by the clock, whatever else runs here
    would make it look narrower than it is.
    """
    try:
        best = max(_loopback_bytes_per_s() for _ in range(_LOOPBACK_TRIES))
    except OSError:
        return {}
    return {"loopback_bytes_per_s": f"{best:.0f}"}


def _loopback_bytes_per_s() -> float:
    sender_s: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_LOOPBACK_S_MAX)
        # A thread is enough: the kernel copies while no thread holds the interpreter's lock.
        sender = threading.Thread(target=_send_all, args=(listener.getsockname(), sender_s), daemon=True)
        sender.start()
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_LOOPBACK_S_MAX)
            buffer, received = bytearray(_LOOPBACK_CHUNK_BYTES), 0
            begun = time.thread_time()
            while count := connection.recv_into(buffer):
                received += count
            receiver_s = time.thread_time() - begun
        sender.join()
    if received < _LOOPBACK_BYTES:
        raise ConnectionError("the loopback connection broke")
    return received / max(receiver_s, *sender_s)


def _send_all(address: tuple[str, int], took_s: list[float]) -> None:
    chunk = bytes(_LOOPBACK_CHUNK_BYTES)
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=_LOOPBACK_S_MAX) as connection:
        begun = time.thread_time()
        for _ in range(_LOOPBACK_BYTES // _LOOPBACK_CHUNK_BYTES):
            connection.sendall(chunk)
        took_s.append(time.thread_time() - begun)


def source_digest() -> str:
    """Of the package that is measured, so that an edit during a run shows."""
    found = importlib.util.find_spec("entrepot")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _machine_id() -> str:
    path = Path("/etc/machine-id")
    # Not the id itself, which identifies the machine elsewhere too.
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""


def _cpu() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor()


def _file_system(folder: Path) -> str:
    """The kind of file system: that of the longest mount point above the folder."""
    best: list[str] = []
    for line in Path("/proc/mounts").read_text().splitlines():
        fields = line.split()
        if folder.resolve().is_relative_to(fields[1]) and (not best or len(fields[1]) >= len(best[1])):
            best = fields
    return best[2] if best else "unknown"


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        return "none on the PATH"
    ended = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return (ended.stderr or ended.stdout).partition("\n")[0]


def _commit() -> str:
    folder = str(Path(__file__).parent)
    ended = subprocess.run(
        ["git", "-C", folder, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout.strip() or "not in a repository"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
