# SPDX-License-Identifier: Apache-2.0
"""Installing peers, with an apt-get and a dpkg-query of our own in front of the machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrepot.errors import SystemAbsent, SystemFailed, SystemUnknown
from entrepot.workbench.systems import find_system, installing

pytest.importorskip("pika")
pytest.importorskip("stomp")

APT = """#!/bin/sh
echo "$DEBIAN_FRONTEND $*" >>{folder}/called
[ ! -e {folder}/policy-rc.d ] || echo "services are held" >>{folder}/called
for word in "$@"; do
    case "$word" in rabbitmq-server | activemq | libxstream-java) touch {folder}/has-$word ;; esac
done
exit {status}
"""
DPKG = """#!/bin/sh
for word in "$@"; do last=$word; done
if [ -e {folder}/has-$last ]; then printf 'install ok installed'; else exit 1; fi
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >>{folder}/disabled
"""


class Machine:
    """Where nothing is installed until apt-get has been called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._monkeypatch = monkeypatch
        self.put("dpkg-query", DPKG)
        self.put("systemctl", SYSTEMCTL)
        self.apt_ends_with(0)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(installing, "POLICY", folder / "policy-rc.d")
        monkeypatch.setattr(installing, "CLUSTERS", folder / "etc" / "createcluster.conf")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        # Whether the servers are really here is another question.
        monkeypatch.setattr(installing, "absent_reason", lambda _: "")

    def put(self, name: str, text: str, status: int = 0) -> None:
        (self.folder / name).write_text(text.format(folder=self.folder, status=status))
        (self.folder / name).chmod(0o755)

    def apt_ends_with(self, status: int) -> None:
        self.put("apt-get", APT, status)

    def install(self, *names: str) -> None:
        installing.install(names, self.said.append)

    @property
    def called(self) -> list[str]:
        path = self.folder / "called"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_packages_are_installed_without_recommendations_questions_and_services(machine: Machine) -> None:
    machine.install("rabbitmq", "activemq")
    assert machine.called == [
        "noninteractive -o DPkg::Lock::Timeout=300 update -qq",
        "services are held",
        "noninteractive -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends"
        " rabbitmq-server activemq libxstream-java",
        "services are held",
    ]
    assert not (machine.folder / "policy-rc.d").exists()
    assert "disable --quiet rabbitmq-server" in (machine.folder / "disabled").read_text().splitlines()
    assert machine.said == [
        "installing rabbitmq-server, activemq, libxstream-java",
        "RabbitMQ, pika can be measured here",
        "ActiveMQ, stomp.py can be measured here",
    ]


def test_what_is_there_is_not_installed_again(machine: Machine) -> None:
    machine.install("rabbitmq")
    before = machine.called
    machine.install("rabbitmq")
    assert machine.called == before


def test_a_policy_of_somebody_else_stays(machine: Machine) -> None:
    (machine.folder / "policy-rc.d").write_text("theirs")
    machine.install("rabbitmq")
    assert (machine.folder / "policy-rc.d").read_text() == "theirs"


def test_who_is_not_root_is_told_what_to_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemAbsent, match=r"only root can install rabbitmq-server; run: sudo .*entrepot bench peers"):
        machine.install("rabbitmq")
    assert machine.called == []


def test_without_apt_the_packages_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.folder / "apt-get").unlink()
    monkeypatch.setenv("PATH", str(machine.folder))
    with pytest.raises(SystemAbsent, match="no apt-get to install rabbitmq-server with"):
        machine.install("rabbitmq")


def test_a_failing_apt_is_told_and_leaves_no_policy(machine: Machine) -> None:
    machine.apt_ends_with(100)
    with pytest.raises(SystemFailed, match="install ended with status 100"):
        machine.install("rabbitmq")
    assert not (machine.folder / "policy-rc.d").exists()


def test_an_unknown_name_installs_nothing(machine: Machine) -> None:
    with pytest.raises(SystemUnknown, match="kafka"):
        machine.install("rabbitmq", "kafka")
    assert machine.called == []


def test_a_missing_client_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        if name == "rabbitmq":
            raise ModuleNotFoundError("No module named 'pika'", name="pika")
        return find_system(name)

    monkeypatch.setattr(installing, "find_system", find)
    monkeypatch.setattr(installing, "absent_reason", lambda name: "pip install …" if name == "rabbitmq" else "")
    with pytest.raises(SystemAbsent, match="rabbitmq cannot run here: pip install"):
        machine.install("rabbitmq", "activemq")
    assert any("activemq" in line for line in machine.called)
