# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.testing.certificates import Certificates, make_certificates
from entrepot.testing.servers import ServerThread
from unit.server.conftest import founded

from .strangers import as_user, escapes_of

__all__ = ["founded"]

SCRIPT = """
ALTER QMGR SSLKEYR('tls/server')
DEFINE LISTENER(TCP) PORT(0)
DEFINE LISTENER(TLS) PORT(0) TLS(YES)
DEFINE LISTENER(OPEN) PORT(0) IPADDR('0.0.0.0') CONTROL(MANUAL)
DEFINE CHANNEL(ADM) CHLTYPE(SVRCONN)
SET CHLAUTH(ADM) TYPE(BLOCKUSER) USERLIST('nobody')
DEFINE CHANNEL(CERT) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLPEER('CN=app*,O=Port')
SET CHLAUTH(CERT) TYPE(SSLPEERMAP) SSLPEER('O=Port') MCAUSER('ann')
DEFINE CHANNEL(OTHER) CHLTYPE(SVRCONN)
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates") / "ours", ["server", "app1", "other"])


@pytest.fixture(scope="module")
def path(founded: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checklist") / "QM1"
    shutil.copytree(founded, path)
    shutil.copytree(certificates.folder, path / "tls")
    with connected_to(EmbeddedHost(path)) as connection:
        connection.mqsc(SCRIPT)
    return path


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[ServerThread]:
    with ServerThread(path) as server:
        escaped = escapes_of(server)
        yield server
    assert escaped == []


@pytest.fixture
def admin(server: ServerThread) -> Iterator[Connection]:
    with connect(server.unix_url, application="admin") as connection:
        yield connection


@pytest.fixture
def ann(server: ServerThread, admin: Connection) -> Iterator[Connection]:
    """A user without any authority but to connect; what she is given ends with the test."""
    with as_user(server, "ann") as connection:
        yield connection
    records = admin.mqsc("DISPLAY AUTHREC PRINCIPAL('ann')")[0].rows
    for record in records:
        if record["OBJTYPE"] != "QMGR":
            admin.mqsc(f"DELETE AUTHREC PROFILE('{record['PROFILE']}') OBJTYPE({record['OBJTYPE']}) PRINCIPAL('ann')")
    admin.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHRMV(ALL) AUTHADD(CONNECT)")
