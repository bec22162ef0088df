"""What MkDocs calls while it builds the documentation: pages and parts of pages that are not written below ``docs/``.

The reference is made from the code. Files of the project that have a reader of their own (``SECURITY.md`` and others)
become pages as they are. Links in them and in ``docs/`` are those of the repository, so that they work where its files
are read as they lie; here they become the site's.
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
"""Pages by the files that they are made from."""
_LIGHT_AND_DARK = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">\s*</picture>'
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
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
    """The text with links within the site, and with the parts that are made."""
    from tools.docs.architecture import PARTS
    from tools.docs.reference import PAGES

    # The pages of the reference are only on the site.
    links = " · ".join(f"[{Path(address).stem}]({address})" for address in PAGES)
    markdown = markdown.replace("<!-- reference -->", links)
    for source, target in PROJECT_FILES.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    markdown = re.sub(r"<!-- architecture: (\w+) -->", lambda match: PARTS[match[1]](), markdown)
    # The reader chooses light or dark on the site, and `prefers-color-scheme` does not know of it.
    markdown = _LIGHT_AND_DARK.sub(r"![\2](\3#only-light)\n![\2](\1#only-dark)", markdown)
    return markdown.replace("](docs/", "](")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The page with a name for the theme's dialog, which has none for those who hear it."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_build(config: MkDocsConfig) -> None:
    """A page for addresses that do not exist is for servers, and its links do not work elsewhere."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)
