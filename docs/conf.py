"""Configuration of the documentation: ``sphinx-build -W -n docs docs/_build/html`` builds it without a network."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "scrapy-resiproxy"
author = project_copyright = PROJECT["authors"][0]["name"]
release = version = PROJECT["version"]

extensions = ["sphinx_scrapy", "sphinx.ext.extlinks"]
# Names of Scrapy are links below, not references: a build must not need another site's inventory.
scrapy_intersphinx_disable = ["python", "scrapy"]
extlinks = {
    "scrapy": ("https://docs.scrapy.org/en/latest/topics/%s.html", "%s"),
    "rfc-page": ("https://www.rfc-editor.org/rfc/%s", "%s"),
}
extlinks_detect_hardcoded_links = False

exclude_patterns = ["_build"]
default_role = "literal"
smartquotes = False
highlight_language = "none"
nitpicky = True

html_theme = "furo"
html_title = f"scrapy-resiproxy {release}"
html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
