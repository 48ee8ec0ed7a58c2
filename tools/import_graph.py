"""Print which package of fairlead imports which, as Mermaid, DOT or text.

An edge that follows from others is left out: where cli imports app and app imports model, the edge
from cli to model is not drawn. `--all` draws these too. `--write PAGE` puts the graph between the
page's markers. As for import-linter, imports for types alone and those of `ignore_imports` do not
count.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "src" / "fairlead"
BEGIN = "<!-- import graph: written by `make import-graph` -->"
END = "<!-- end of the import graph -->"

Graph = dict[str, set[str]]


def main() -> None:
    """Read the options, then print the graph or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=FORMATS, default="mermaid")
    parser.add_argument(
        "--all", action="store_true", help="draw also edges that follow from others"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write Mermaid into this page")
    options = parser.parse_args()
    graph = package_graph()
    if not options.all:
        graph = reduced(graph)
    if options.write:
        write(options.write, mermaid(graph))
    else:
        sys.stdout.write(FORMATS[options.format](graph))


def package_graph() -> Graph:
    """The packages and top-level modules of fairlead, each with those it imports."""
    names = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or is_package(path)}
    graph: Graph = {name: set() for name in sorted(names - {"__init__", "__main__"})}
    ignored = ignored_imports()
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(["fairlead", *path.relative_to(ROOT).with_suffix("").parts])
        package = module.split(".")[1]
        if package in graph:
            targets = {
                name.split(".")[1] for name in imported(path) if (module, name) not in ignored
            }
            graph[package] |= (targets & set(graph)) - {package}
    return graph


def is_package(path: Path) -> bool:
    """Whether the path is a folder with Python files."""
    return path.is_dir() and any(path.rglob("*.py"))


def ignored_imports() -> set[tuple[str, str]]:
    """The exceptions that import-linter's contracts declare: importing module, imported one."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    lines = [line for contract in contracts for line in contract.get("ignore_imports", [])]
    return {(source, target) for source, _, target in (line.partition(" -> ") for line in lines)}


def imported(path: Path) -> Iterator[str]:
    """The modules below fairlead that a file imports at run time."""
    tree = ast.parse(path.read_text("utf-8"))
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in set(ast.walk(tree)) - for_types:
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "fairlead":
            modules = [f"fairlead.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        yield from (module for module in modules if module.startswith("fairlead."))


def reduced(graph: Graph) -> Graph:
    """The graph without the edges that follow from others; who reaches whom stays the same."""
    result = {name: set(targets) for name, targets in graph.items()}
    for name, targets in graph.items():
        for target in sorted(targets):
            result[name].discard(target)
            if target not in reachable(result, name):
                result[name].add(target)
    return result


def reachable(graph: Graph, start: str) -> set[str]:
    """Everything that `start` imports, directly or not."""
    seen: set[str] = set()
    pending = [start]
    while pending:
        for name in graph[pending.pop()] - seen:
            seen.add(name)
            pending.append(name)
    return seen


def edges(graph: Graph) -> list[tuple[str, str]]:
    """All edges in order."""
    return [(name, target) for name in sorted(graph) for target in sorted(graph[name])]


def mermaid(graph: Graph) -> str:
    """The graph as a Mermaid flowchart."""
    lines = [f"    {name} --> {target}" for name, target in edges(graph)]
    return "\n".join(["flowchart TD", *lines]) + "\n"


def dot(graph: Graph) -> str:
    """The graph for Graphviz."""
    lines = [f'    "{name}" -> "{target}";' for name, target in edges(graph)]
    return "\n".join(["digraph fairlead {", *lines, "}"]) + "\n"


def text(graph: Graph) -> str:
    """One line per package."""
    return "".join(f"{name}: {', '.join(sorted(graph[name])) or '-'}\n" for name in sorted(graph))


def write(page: Path, picture: str) -> None:
    """Put the picture between the markers of the page."""
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{page} has no markers; put these lines where the graph belongs:\n{BEGIN}\n{END}")
    page.write_text(f"{before}{BEGIN}\n\n```mermaid\n{picture}```\n\n{END}{after}", "utf-8")


FORMATS = {"mermaid": mermaid, "dot": dot, "text": text}

if __name__ == "__main__":
    main()
