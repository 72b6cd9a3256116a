# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.errors import InvalidSetting
from entrepot.spark.starting.launching import driver_arguments, last_words
from entrepot.spark.starting.settings import all_settings, local_master, require_master, stays_here

PRIVATE = Path("/tmp/private")


@pytest.mark.parametrize(
    "master",
    ["local", "local[4,4]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077", "spark://localhost:1,[::1]:2"],
)
def test_masters_of_this_machine_are_reached_by_loopback(master: str) -> None:
    settings = all_settings(master, "tests", {}, PRIVATE)
    assert stays_here(master)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://10.0.0.7:7077", "spark://127.0.0.1:1,other:2", "yarn", "k8s://host:443"])
def test_masters_elsewhere_find_the_driver_by_spark_s_own_rules(master: str) -> None:
    settings = all_settings(master, "tests", {}, PRIVATE)
    assert not stays_here(master)
    assert {key for key in settings if key.startswith("spark.driver.")} == set()
    assert "spark.python.unix.domain.socket.dir" not in settings
    assert "spark.python.daemon.module" not in settings


def test_callers_settings_come_before_ours_but_for_master_and_name() -> None:
    own = {"spark.ui.enabled": "true", "spark.driver.host": "10.0.0.7", "spark.master": "yarn", "x": "y"}
    settings = all_settings("local[2,4]", "tests", own, PRIVATE)
    assert (settings["spark.ui.enabled"], settings["spark.driver.host"], settings["x"]) == ("true", "10.0.0.7", "y")
    assert (settings["spark.master"], settings["spark.app.name"]) == ("local[2,4]", "tests")


def test_folder_too_deep_for_a_socket_is_not_used() -> None:
    settings = all_settings("local[2,4]", "tests", {}, Path("/tmp") / ("x" * 70))
    assert settings["spark.python.unix.domain.socket.enabled"] == "false"
    assert "spark.python.unix.domain.socket.dir" not in settings


def test_long_tasks_leave_slots_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert local_master() == "local[4,4]"
    assert local_master(3) == "local[7,4]"
    assert local_master(3, attempts=1000) == "local[7,1000]"


@pytest.mark.parametrize("master", ["", "mesos://host:5050", "localhost", "spark://", "local[]"])
def test_master_that_spark_does_not_know_is_refused(master: str) -> None:
    with pytest.raises(InvalidSetting, match="master cannot be"):
        require_master(master)


def test_secrets_stay_off_the_command_line() -> None:
    settings = {"spark.a": "1", "spark.authenticate.secret": "s3", "spark.hadoop.fs.s3a.access.key": "k"}
    assert driver_arguments(settings) == ["--conf", "spark.a=1", "pyspark-shell"]


def test_last_words_leave_out_the_stack() -> None:
    said = b"first\nException in thread main: no memory\n\tat a.b.C(D.java:1)\n    at x\nError: bye\n"
    assert last_words(said, lines_max=2) == "Exception in thread main: no memory / Error: bye"
    assert last_words(b"\n") == "nothing"
