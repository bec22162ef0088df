"""MkDocs hooks that add generated pages and parts of pages to the documentation.

The reference is generated from the code. Files in the project's root (``SECURITY.md`` and others) become pages. Links
in them and in ``docs/`` work in the repository; these hooks convert them to links within the site.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PROJECT_FILES = {
    "SECURITY.md": "security.md",
    "CHANGES-v2.md": "changes-v2.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages, by their source file."""
_LIGHT_AND_DARK = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">\s*</picture>'
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tools.docs.reference import PAGES

    for source, page in PROJECT_FILES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=re.sub(r"\]\((?=\w[\w.-]*\.md)", "](../", text)))
    from tools.docs import authoring

    for page, made in {**PAGES, "reference/authoring.md": authoring.page}.items():
        files.append(File.generated(config, page, content=made()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text with links within the site, and with the generated parts."""
    from tools.docs.architecture import PARTS
    from tools.docs.reference import PAGES

    # The reference pages exist only on the site.
    links = " · ".join(f"[{Path(address).stem}]({address})" for address in PAGES)
    markdown = markdown.replace("<!-- reference -->", links)
    for source, target in PROJECT_FILES.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    markdown = re.sub(r"<!-- architecture: (\w+) -->", lambda match: PARTS[match[1]](), markdown)
    # The site has its own switch for light and dark, which `prefers-color-scheme` does not reflect.
    markdown = _LIGHT_AND_DARK.sub(r"![\2](\3#only-light)\n![\2](\1#only-dark)", markdown)
    return markdown.replace("](docs/", "](")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Add an accessible name to the theme's search dialog, which lacks one."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_build(config: MkDocsConfig) -> None:
    """Delete the 404 page: it is meant for servers, and its links do not work elsewhere."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)
