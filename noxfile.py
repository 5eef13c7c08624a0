"""The tests at both ends of what is promised. ``make min`` runs the lower end."""

from __future__ import annotations

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
