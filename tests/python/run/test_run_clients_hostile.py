"""``pfs run``: clients of PostgreSQL and MariaDB whose server sends any bytes see what they see without pfs.

What real servers send is recorded once, and sent again with changes.
"""

from __future__ import annotations

import os
import random
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pfs._process.run import launch
from tests import budgets
from tests.python import servers
from tests.python.run.test_run import SOURCES, own_folder, pytestmark, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

SEED = budgets.seed()
PATIENCE = 0.15  # seconds after which a server that is not asked hangs up
Outcome = tuple[int, bytes, bytes]
WORDS = (
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\1",
    b"\xfe",
    b"\xff\x01\x02#HY000bad",
    b"\xfb",
    b"\xfc\xff\xff",
)


class Client(NamedTuple):
    """A program, its socket, and what the server answered by turns."""

    command: list[str]
    socket: str
    turns: list[bytes]


@contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        yield server


def is_silent(asked: bytes) -> bool:
    """Returns whether this is all of a message that no server answers (MariaDB's COM_STMT_CLOSE).

    The next message comes with it or behind it, as the client's thread is fast: it is one turn in both cases.
    """
    return len(asked) == 9 and asked[4] == 0x19


def recorded(command: list[str], path: str, real: str) -> Client:
    """Lets the client talk to a real server, and keeps what that sends between two messages of the client."""
    turns = [b""]
    with (
        listening(path) as server,
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        socket.socket(socket.AF_UNIX) as there,
    ):
        here, _ = server.accept()
        there.connect(real)
        while True:
            ready = select.select([here, there], [], [], 20)[0]
            assert ready, "nobody says anything"
            if there in ready:
                answer = there.recv(1 << 16)
                turns[-1] += answer
                with suppress(OSError):
                    here.sendall(answer)
            if here in ready:
                asked = here.recv(1 << 16)
                if not asked:
                    break
                if not is_silent(asked):
                    turns.append(b"")
                there.sendall(asked)
        here.close()
        said = process.communicate(timeout=20)[0]
    assert process.returncode == 0
    assert said.endswith(b"end\n")
    return Client(command, path, turns)


@pytest.fixture(scope="module")
def libpq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("libpq")
    headers = run(servers.find("pg_config"), "--includedir").stdout.strip()
    run("cc", f"-I{headers}", "-o", folder / "client", SOURCES / "libpq_calls.c", "-lpq", check=True)
    with servers.folder() as place, servers.postgresql() as given:
        real = dict(part.split("=") for part in given.split())["host"]
        command = [
            str(folder / "client"),
            f"host={place} user=postgres dbname=shop sslmode=disable gssencmode=disable connect_timeout=5",
        ]
        yield recorded(command, f"{place}/.s.PGSQL.5432", f"{real}/.s.PGSQL.5432")


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("mysql")
    flags = run(servers.find("mariadb_config"), "--cflags", "--libs", check=True).stdout.split()
    run("cc", "-o", folder / "client", SOURCES / "mysql_calls.c", *flags, check=True)
    with servers.folder() as place, servers.mariadb() as real:
        path = f"{place}/socket"
        yield recorded([str(folder / "client"), path], path, real)


def answer(server: socket.socket, turns: list[bytes]) -> None:
    """Sends a turn for each message of the first client, and hangs up. Other clients get nothing."""
    for each in (turns, []):
        with suppress(OSError):
            here, _ = server.accept()
            with here, suppress(TimeoutError):
                here.settimeout(PATIENCE)
                for turn in each:
                    here.sendall(turn)
                    while is_silent(asked := here.recv(1 << 16)):
                        pass
                    if not asked:
                        break


def outcome(client: Client, turns: list[bytes], environment: dict[str, str]) -> Outcome:
    with listening(client.socket) as server:
        thread = threading.Thread(target=answer, args=(server, turns))
        thread.start()
        done = subprocess.run(client.command, env=environment, capture_output=True, timeout=60, check=False)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # ends accept()
        thread.join()
    return done.returncode, done.stdout, done.stderr


def changed(turns: list[bytes], chance: random.Random) -> list[bytes]:
    made = list(turns)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 20))):
        place = chance.randrange(len(made))
        turn = bytearray(made[place])
        at = chance.randrange(len(turn) + 1)
        match chance.randrange(7):
            case 0:
                turn[at : at + 1] = chance.randbytes(1)
            case 1:
                del turn[at:]
            case 2:
                word = chance.choice(WORDS)
                turn[at : at + len(word)] = word
            case 3:
                turn[at:at] = chance.choice((chance.choice(WORDS), chance.randbytes(4), chance.randbytes(100)))
            case 4:
                turn = bytearray(chance.randbytes(chance.choice((1, 5, 50, 5000))))
            case 5:
                turn *= 2
            case 6:
                turn = bytearray(made[chance.randrange(len(made))])
        made[place] = bytes(turn)
    return made


def assert_same(client: Client, turns: list[bytes], folder: Path, said: str) -> None:
    """What a client sees of bytes behind a message depends on when they come: then one outcome of several must be the same."""
    folder.mkdir(exist_ok=True, mode=0o700)
    seen = {**os.environ, **launch.environment(str(folder))}
    plain, recorded_ones = set[Outcome](), set[Outcome]()
    for _ in range(10):
        plain.add(outcome(client, turns, dict(os.environ)))
        recorded_ones.add(outcome(client, turns, seen))
        if plain & recorded_ones:
            return
    raise AssertionError(f"{said}: {plain} and {recorded_ones}")


@pytest.mark.parametrize(
    "name",
    [pytest.param("libpq", marks=pytest.mark.needs("postgresql")), pytest.param("mysql", marks=pytest.mark.needs("mariadb"))],
)
def test_any_answer_of_a_server_has_the_same_effect(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    print(f"PFS_TEST_SEED={SEED}")
    client: Client = request.getfixturevalue(name)
    assert len(client.turns) > 10
    assert_same(client, client.turns, tmp_path / "segments", "unchanged")
    for number in range(budgets.CLIENT_MUTANTS):
        assert_same(client, changed(client.turns, random.Random(SEED + number)), tmp_path / "segments", f"seed {SEED + number}")


@pytest.mark.needs("postgresql")
def test_pfs_causes_no_notice_of_libpq(libpq: Client, tmp_path: Path) -> None:
    """A tag without a number was a line on the program's stderr: pfs asked libpq for the number."""
    turns = [turn.replace(b"INSERT 0 9", b"INSERT 0\xa09") for turn in libpq.turns]
    assert turns != libpq.turns
    assert_same(libpq, turns, tmp_path / "segments", "a tag without a number")
