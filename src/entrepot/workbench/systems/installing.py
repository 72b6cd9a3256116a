# SPDX-License-Identifier: Apache-2.0
"""`entrepot bench peers install`: the servers of other systems from Debian's packages, with none of them running.

The workbench starts its own servers, in folders of its own, so a package must
neither start its service now (policy-rc.d says no while it is installed) nor
with the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from entrepot.errors import SystemAbsent, SystemFailed
from entrepot.workbench.systems import ALL, PEERS, absent_reason, base_name, find_system
from entrepot.workbench.systems.processes import script

POLICY = Path("/usr/sbin/policy-rc.d")
CLUSTERS = Path("/etc/postgresql-common/createcluster.conf")
_LOG_TAIL_CHARACTERS = 2000
_REFUSE = "#!/bin/sh\nexit 101\n"
_LOCK_S = 300


def install(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Have these systems installed, all peers if none is named; nothing to do for those that are there.

    Raises:
        SystemUnknown: No system has this name. Nothing was installed.
        SystemAbsent: It takes root, Debian's apt-get or a Python client that is not here; the error says what to run.
        SystemFailed: apt-get failed; the end of its output is in the message.
    """
    wanted = tuple(dict.fromkeys(base_name(name) for name in (PEERS if not names or ALL in names else names)))
    without_client = [name for name in wanted if not _has_client(name)]
    if packages := _missing_packages([name for name in wanted if name not in without_client]):
        _require_apt(wanted, packages)
        say(f"installing {', '.join(packages)}")
        _install_packages(packages)
        _keep_from_starting(packages)
    for name in (*without_client, *wanted):
        if reason := absent_reason(name):
            raise SystemAbsent(name, reason)
    for name in wanted:
        say(f"{find_system(name).title} can be measured here")


def _has_client(name: str) -> bool:
    """Without its Python client a system cannot even tell its packages."""
    try:
        find_system(name)
    except ModuleNotFoundError:
        return False
    return True


def _missing_packages(names: Sequence[str]) -> list[str]:
    wanted = dict.fromkeys(package for name in names for package in find_system(name).packages)
    absent = {name for name in names if find_system(name).absent()}
    if shutil.which("dpkg-query") is None:
        return [package for package in wanted if any(package in find_system(name).packages for name in absent)]
    return [package for package in wanted if not _is_installed(package)]


def _is_installed(package: str) -> bool:
    command = ["dpkg-query", "--show", "--showformat", "${Status}", package]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    return finished.stdout == "install ok installed"


def _require_apt(names: Sequence[str], packages: Sequence[str]) -> None:
    subject, listed = ", ".join(names), " ".join(packages)
    if shutil.which("apt-get") is None:
        raise SystemAbsent(subject, f"there is no apt-get to install {listed} with; install them by hand")
    if os.geteuid() != 0:
        command = f"sudo {script('entrepot')} bench peers install {' '.join(names)}"
        raise SystemAbsent(subject, f"only root can install {listed}; run: {command}")


def _install_packages(packages: Sequence[str]) -> None:
    if "postgresql" in packages and not CLUSTERS.exists():
        CLUSTERS.parent.mkdir(parents=True, exist_ok=True)
        CLUSTERS.write_text("create_main_cluster = false\n")
    with _no_service_starts():
        # Old lists may do; the next command tells if they do not.
        _apt(["update", "-qq"], check=False)
        _apt(["install", "-y", "-qq", "--no-install-recommends", *packages], check=True)


def _apt(arguments: Sequence[str], *, check: bool) -> None:
    command = ["apt-get", "-o", f"DPkg::Lock::Timeout={_LOCK_S}", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(command, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT, env=environment, check=False)
    if check and done.returncode != 0:
        tail = done.stdout.decode(errors="replace")[-_LOG_TAIL_CHARACTERS:]
        raise SystemFailed("apt-get", f"{arguments[0]} ended with status {done.returncode}:\n{tail}")


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """Debian starts a service as soon as it is installed unless this file says no. Ours goes again, another's stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(_REFUSE)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _keep_from_starting(packages: Sequence[str]) -> None:
    if shutil.which("systemctl") is None:
        return
    for package in packages:
        # A package need not have a service of its name.
        command = ["systemctl", "disable", "--quiet", package]
        subprocess.run(command, capture_output=True, check=False)
