"""Hooks of MkDocs: the pages outside docs/, links between files of the repository, lists, and versions."""

import json
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
BRANCH = "main"

# Pages that are elsewhere on the site than their file is below docs/.
MOVED = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "charts/rollcall/README.md": "reference/chart.md",
    "examples/README.md": "examples.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "CODE_OF_CONDUCT.md": "contributing/code-of-conduct.md",
    "GOVERNANCE.md": "contributing/governance.md",
    "MAINTAINERS.md": "contributing/maintainers.md",
    "ROADMAP.md": "contributing/roadmap.md",
    "SECURITY.md": "contributing/security.md",
}
SOURCES = {page: source for source, page in MOVED.items()}

FENCE = re.compile(r"^\s*(```+|~~~+)")
ITEM = re.compile(r"^(?:[-*+]|\d+\.) +")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def on_files(files, config):
    index = files.get_file_from_path("README.md")
    if index:
        files.remove(index)
    for source, page in MOVED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "site.css", abs_src_path=str(ROOT / "site/site.css")))
    files.append(File.generated(config, "mermaid.min.js", abs_src_path=str(ROOT / "bin/site/mermaid.min.js")))
    return files


def on_page_markdown(markdown, page, config, files):
    path = page.file.src_uri
    source = SOURCES.get(path, "docs/" + path)

    def rewrite(match):
        return match[1] + _target(match[2], source, path, config, files) + match[3]

    lines, fenced = [], False
    for line in _indent_lists(markdown.split("\n")):
        if FENCE.match(line):
            fenced = not fenced
        lines.append(line if fenced else LINK.sub(rewrite, line))
    return "\n".join(lines)


def _target(link, source, page, config, files):
    """Returns the link of a page on the site: to another page, or to the repository if its target is not on the site."""
    if re.match(r"[a-z]+:", link) or link.startswith("#"):
        return link
    path, sep, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if (ROOT / target / "README.md").is_file() and (target + "/README.md" in MOVED or target.startswith("docs/")):
        target += "/README.md"
    uri = MOVED.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
    if uri and files.get_file_from_path(uri):
        return posixpath.relpath(uri, posixpath.dirname(page) or ".") + sep + anchor
    if (ROOT / target).exists() or (source == "CHANGELOG.md"):
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{config.repo_url.rstrip('/')}/{kind}/{BRANCH}/{target}{sep}{anchor}"
    return link  # the strict build reports it


def _indent_lists(lines):
    """Writes lists as Markdown for Python needs them: what belongs to an item is indented by four columns, where GitHub
    needs only the width of the marker, and a blank line follows an item of several paragraphs."""
    width, fenced, paragraphs = 0, False, False
    for line in lines:
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        item = ITEM.match(line) if not fenced else None
        if FENCE.match(line):
            fenced = not fenced
        if item:
            if width and paragraphs:
                yield ""
            width, paragraphs = len(item[0]), False
        elif text and indent < width and not fenced:
            width = 0
        paragraphs = paragraphs or not text
        nested = width and not fenced and re.match(r"([-*+]|\d+\.) ", text)
        levels = indent // width if nested else 1
        yield " " * ((4 - width) * levels) + line if width and indent >= width else line


def on_page_content(html, page, config, files):
    """Adds the program of diagrams, which is large, only to pages with a diagram."""
    if 'class="mermaid"' not in html:
        return html
    html = re.sub(r'<pre class="mermaid">.*?</pre>', r'<div class="diagram">\g<0></div>', html, flags=re.DOTALL)
    script = posixpath.relpath("mermaid.min.js", page.file.url or ".")
    return html + f'<script src="{script}"></script>'


_command = "build"


def on_startup(command, dirty):
    """Remembers whether the site is built or served."""
    global _command
    _command = command


def on_post_build(config):
    """Lists the versions, which are folders beside each other, newest first, for the selector of the site."""
    if _command == "serve":
        return  # to a temporary folder
    parent = Path(config.site_dir).parent
    versions = sorted((p.parent.name for p in parent.glob("*/sitemap.xml")), key=_version_key, reverse=True)
    listed = [{"version": v, "title": v, "aliases": []} for v in versions]
    (parent / "versions.json").write_text(json.dumps(listed, indent=2) + "\n")
    latest = next((v for v in versions if v != "dev" and "-" not in v), versions[0])
    (parent / "index.html").write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={latest}/">\n')


def _version_key(version):
    return [int(n) for n in re.findall(r"\d+", version)]
