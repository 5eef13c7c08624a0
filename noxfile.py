"""The tests at both ends of what is promised. ``make min`` runs the lower end."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True

# In step with `dependencies` in pyproject.toml: the lowest version that is promised.
LOWEST_SCRAPY = "scrapy==2.15.*"


def _run(session: nox.Session, scrapy: str) -> None:
    session.install("--upgrade", "pip>=25.1", silent=True)
    session.install("--editable", ".[lab]", "--group", "test", scrapy, silent=True)
    session.run("python", "-c", "import scrapy; print('Scrapy', scrapy.__version__)")
    session.run("pytest", "-q", "-n", "2", "--dist", "loadfile", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The lowest Scrapy."""
    _run(session, LOWEST_SCRAPY)


@nox.session
def newest(session: nox.Session) -> None:
    """The newest Scrapy."""
    _run(session, "scrapy")


@nox.session
def scrapys_tests(session: nox.Session) -> None:
    """The cases that Scrapy tests its own HTTP/1.1 handler with, put to ours: they come with its source archive."""
    session.install("--editable", ".", "scrapy", "pytest<9", "pytest-twisted", "pytest-timeout", silent=True)
    version = session.run("python", "-c", "import scrapy; print(scrapy.__version__)", silent=True)
    folder = Path(session.create_tmp())
    wanted = f"scrapy=={str(version).strip()}"
    session.run("pip", "download", "--quiet", "--no-deps", "--no-binary", "scrapy", "--dest", str(folder), wanted)
    [archive] = folder.glob("scrapy-*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz")
    shutil.copy("tests/tunnel/scrapys_cases.py", source / "tests" / "test_ours.py")
    # The source tree must not stand in for what is installed.
    shutil.rmtree(source / "scrapy")
    with session.chdir(source):
        session.run("pytest", "-q", "tests/test_ours.py", *session.posargs)
