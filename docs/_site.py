"""A hook of mkdocs: generates the reference, the lessons' pages, and pages from files outside docs.

The reference has a page for each public module, which begins with the module's docstring. Modules whose names begin
with an underscore have no page.
"""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from _replays import alive
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[1]
# Files outside docs/ and their pages on the site: files that forges expect at the top level, and reports of long
# studies.
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/reports/bench.md": "benchmark_report.md",
    "benchmarks/reports/papers.md": "reproduction_report.md",
}
# Internal modules that users of netsim need not know.
INNER = re.compile(
    r"netsim\.(__main__|core|engine\..*|util\.(check|compiled|files|draws)|wire\.packing"
    r"|core\.(?!frame$|copies$).*|clock\.(?!clock$).*"
    r"|studies\.(cli|reserve|folder|terminal)"
    r"|radio\.(mac|medium|signals)"
    r"|transport\.(?!heard$|inbox$).*)$"
)
SECTIONS = {
    "netsim": "The emulator",
    "netsim.agents": "Agents",
    "netsim.scenarios": "Scenarios",
}

GENERATED = runpy.run_path(str(ROOT / "docs" / "_lists.py"))["PAGES"]
# Generated pages rank lower in the site's search, so that guides are found first.
BEHIND = "---\nsearch: {boost: 0.2}\n---\n\n"

Page = tuple[str, str]
"""A module's name, and the path of its page."""


def modules() -> Iterator[Page]:
    """Yield the public modules that have docstrings, with the paths of their pages."""
    for folder in ("netsim", "agents", "scenarios"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "netsim" else ("netsim", *parts)
            if path.is_symlink() or (folder == "netsim" and parts[1] in ("agents", "scenarios")):
                continue
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if any(part.startswith("_") and part != "__init__" for part in parts) or INNER.match(name):
                continue
            if parts[-1] != "__init__" or name in SECTIONS:
                yield name, f"reference/{name}.md"


def lessons() -> list[Path]:
    """Return the paths of the lessons' notebooks."""
    return sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))


def examples() -> list[Path]:
    """Return the paths of the experiments' notebooks."""
    return sorted((ROOT / "docs" / "experiments").glob("*.ipynb"))


def on_config(config: Any) -> Any:
    """Add the lessons, the reference and the pages from outside docs to the navigation."""
    doors = {title: pages for part in config.nav for title, pages in part.items()}
    (about,) = (part for part in doors["Tutorials"] if isinstance(part, dict))
    about["Lessons"] += [f"lessons/{path.stem}.md" for path in lessons()]
    (studies,) = (part for part in doors["How-to guides"] if "Studies and papers" in part)
    studies["Studies and papers"] += [f"experiments/{path.stem}.md" for path in examples()]
    (repeated,) = (part for part in doors["Explanation"] if "Reproduction" in part)
    repeated["Reproduction"].append("reproduction_report.md")
    sections: dict[str, list[Any]] = {section: [] for section in SECTIONS}
    for name, page in modules():
        section = max((each for each in SECTIONS if name == each or name.startswith(each + ".")), key=len)
        title = name if name == section else name.removeprefix(section + ".")
        sections[section].append({title: page})
    packages = [{SECTIONS[section]: pages} for section, pages in sections.items()]
    doors["Reference"] += [
        {"Python": ["reference/index.md", *packages]},
        *GENERATED,
        "benchmark_report.md",
        "changelog.md",
        "contributing.md",
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Generate the pages of the reference, the lists, the lessons and the files outside docs."""
    rows = [f"{BEHIND}# Reference", "", "Every public module, from its docstrings.", "", "| module | |", "|---|---|"]
    for name, page in modules():
        text = f"{BEHIND}# {name}\n\n::: {name}\n"
        if name in SECTIONS:
            # Members are omitted here, because they are described on the pages of the subpackages.
            text += "    options: {members: false}\n" + shelf(name)
        files.append(File.generated(config, page, content=text))
        rows.append(f"| [`{name}`]({name}.md) | {first_line(name)} |")
    files.append(File.generated(config, "reference/index.md", content="\n".join(rows) + "\n"))
    for page, content in GENERATED.items():
        files.append(File.generated(config, page, content=BEHIND + content()))
    for path in [*lessons(), *examples()]:
        for name, content in lesson(path).items():
            files.append(File.generated(config, f"{path.parent.name}/{name}", content=content))
    for name, page in ELSEWHERE.items():
        text = re.sub(r"\]\((\.\./)*docs/", "](", (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=BEHIND + inward(text)))
    return files


def lesson(path: Path) -> dict[str, str | bytes]:
    """Return the content of a lesson's page and of its figures, by file name."""
    notebook = alive(nbformat.read(path, as_version=4))
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources={"output_files_dir": path.stem})
    head, _, rest = text.lstrip().partition("\n")
    page = f"{head}\n\n[This page as a notebook]({path.name})\n{rest}".replace("![png]", f"![{head.lstrip('# ')}]")
    # On Windows, file names contain backslashes, which would be invalid in the site's paths.
    return {f"{path.stem}.md": page} | {name.replace("\\", "/"): data for name, data in resources["outputs"].items()}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change links to files outside docs/, and to notebooks, into links to their pages of the site."""
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"(?<!\[This page as a notebook)\]\(([^)]*)\.ipynb\)", r"](\1.md)", markdown)
    return inward(markdown.replace(f"](../{up}", f"]({up}"))


def inward(text: str) -> str:
    """Return a text in which links to files outside docs/ are replaced by links to their pages."""
    for name, page in ELSEWHERE.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text


def first_line(module: str) -> str:
    """Return the first line of a module's docstring."""
    path = ROOT.joinpath(*module.split("."))
    # A module may have a folder of the same name for its data, so the file takes precedence.
    source = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return (
        (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0].replace("|", "\\|")
    )


def shelf(package: str) -> str:
    """Return a table of a package's exports, with links to the pages that describe them."""
    pages = dict(modules())
    rows = []
    for name, home in sorted(imports(package).items()):
        module = f"{package}.{name}" if home == package else home
        if module in pages:
            anchor = "" if home == package else f"#{home}.{name}"
            rows.append(f"| `{package}.{name}` | [`{module}`]({module}.md{anchor}) |")
    return "\n".join(["", "| name | described in |", "|---|---|", *rows, ""]) if rows else ""


def imports(package: str) -> dict[str, str]:
    """Return the names that a package imports from netsim, with the modules that define them."""
    folder = ROOT.joinpath(*package.split("."))
    door = next((folder / name for name in ("__init__.pyi", "__init__.py") if (folder / name).is_file()), None)
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(door.read_text(encoding="utf-8"))) if door else ():
        if isinstance(node, ast.ImportFrom):
            home = ".".join(filter(None, [package if node.level else "", node.module or ""]))
            if home.startswith("netsim"):
                # A name re-exported from another package is looked up in the module that defines it.
                inner = imports(home) if home != package else {}
                found |= {alias.name: inner.get(alias.name, home) for alias in node.names}
    return found
