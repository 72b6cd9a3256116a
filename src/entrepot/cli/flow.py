# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow`: message flows, looked at, checked, tried and run.

What looks at flows is here; the commands that run them have their own
modules and are added at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import flow_replay, flow_run, flow_test, output
from entrepot.cli.arguments import Json

if TYPE_CHECKING:
    from entrepot.flows.definition import FlowDefinition
    from entrepot.flows.loading import Inspection
    from entrepot.flows.nodes.node import FlowMistake

app = typer.Typer(help="Look at message flows, check them, try them and run them on Spark.", no_args_is_help=True)

FlowFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .yaml, .msgflow or .subflow file.")]
Projects = Annotated[
    list[Path] | None,
    typer.Option("--project", metavar="FOLDER", help="Where a .msgflow finds what it refers to; may be repeated."),
]


@app.command()
def show(
    file: FlowFile,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="OUT.svg", help="Write a picture there.")] = None,
    expand: Annotated[bool, typer.Option("--expand", help="With the nodes of subflows in their places.")] = False,
    project: Projects = None,
    json: Json = False,
) -> None:
    """Draw a flow: from where messages enter, terminal by terminal; subflows below.

    A flow with mistakes is drawn as far as it can be read, and the mistakes are told; exit code 1 then.
    """
    inspected = _inspect(file, project)
    flow = inspected.flow
    if flow is None:
        _tell(inspected.mistakes)
        raise typer.Exit(1)
    if expand:
        from entrepot.flows.subflows import expand_with_mistakes

        flow, _ = expand_with_mistakes(flow)
    if svg is not None:
        from entrepot.flows.picture import svg as draw_svg

        svg.write_text(draw_svg(flow), encoding="utf-8")
        output.note(f"{svg}: {len(flow.nodes)} nodes, {len(flow.links)} links")
    if json:
        from entrepot.flows.drawing import as_json

        output.print_json({**as_json(flow), "mistakes": [_fields(mistake) for mistake in inspected.mistakes]})
    elif svg is None:
        _draw(flow)
        _tell(inspected.mistakes)
    if not inspected.is_valid:
        raise typer.Exit(1)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Flows and subflows.")],
    project: Projects = None,
    json: Json = False,
) -> None:
    """Look for everything that is wrong with flows, with file, line and column; exit code 1 if there is anything.

    Subflows, ESQL and models that a flow names are checked with it.
    """
    inspections = {str(file): _inspect(file, project) for file in files}
    found = list(dict.fromkeys(mistake for inspected in inspections.values() for mistake in inspected.mistakes))
    if json:
        output.print_json({"files": list(inspections), "mistakes": [_fields(mistake) for mistake in found]})
    else:
        _tell(found)
        warnings = sum(mistake.is_warning for mistake in found)
        mistakes = len(found) - warnings
        summary = f"{_count(len(inspections), 'flow')}: {_count(mistakes, 'mistake')}, {_count(warnings, 'warning')}."
        output.say(summary, "bold red" if mistakes else "green")
    if any(not mistake.is_warning for mistake in found):
        raise typer.Exit(1)


@app.command()
def nodes(
    type_name: Annotated[str, typer.Argument(metavar="[TYPE]", help="Tell everything about one type.")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/FLOWS.md has them.")] = False,
    json: Json = False,
) -> None:
    """List the node types and their properties."""
    from entrepot.flows import node_reference
    from entrepot.flows.nodes import NODE_TYPES, find_type

    types = [find_type(name) for name in ([type_name] if type_name else NODE_TYPES)]
    if json:
        output.print_json([node_reference.as_json(each) for each in types])
    elif markdown:
        for each in types:
            output.say(node_reference.markdown(each))
    elif not type_name:
        output.table(("type", "what it does"), [(each.type, node_reference.plain(each.about)) for each in types])
    else:
        _tell_type(node_reference.as_json(types[0]))


def _tell_type(node_type: dict[str, Any]) -> None:
    output.say(f"{node_type['type']}: {node_type['about']}")
    output.facts(
        {
            "inputs": ", ".join(node_type["inputs"]) or "none: messages enter here",
            "outputs": ", ".join(node_type["outputs"]) or "none",
            "in .msgflow files": ", ".join(node_type["ibm"]) or "unknown",
        }
    )
    if node_type["properties"]:
        rows = [(each["name"], each["values"], each["default"], each["about"]) for each in node_type["properties"]]
        output.table(("property", "value", "default", "meaning"), rows)


# --- what the commands share ----------------------------------------------------------------------------------


def _inspect(file: Path, projects: list[Path] | None) -> Inspection:
    from entrepot.flows.loading import inspect_flow

    return inspect_flow(file, projects=projects or ())


def _draw(flow: FlowDefinition) -> None:
    from rich.text import Text
    from rich.tree import Tree

    from entrepot.flows.drawing import outline, with_subflows, words_for_row

    for each in with_subflows(flow):
        tree = Tree(Text(output.safe(each.name), style="bold"))
        branches = [tree]
        for row in outline(each):
            terminal, name, detail = (output.safe(part) for part in words_for_row(row))
            style = "red" if row.terminal in ("failure", "catch") else "cyan"
            del branches[row.depth + 1 :]
            branches.append(branches[-1].add(Text.assemble((terminal, style), (name, "bold"), (detail, "dim"))))
        output.console().print(tree)


def _tell(mistakes: tuple[FlowMistake, ...] | list[FlowMistake]) -> None:
    from rich.text import Text

    out = output.console()
    for mistake in mistakes:
        style = "bold yellow" if mistake.is_warning else "bold red"
        place, problem = output.safe(f"{mistake.where}: "), output.safe(mistake.problem)
        out.print(Text.assemble(place, (f"{mistake.severity}: ", style), problem))
        if mistake.advice:
            out.print(Text(f"  {output.safe(mistake.advice)}", style="dim"))


def _fields(mistake: FlowMistake) -> dict[str, object]:
    return {
        "where": mistake.where,
        "severity": mistake.severity,
        "problem": mistake.problem,
        "advice": mistake.advice,
    }


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


# --- commands of other modules: app.command()(module.function) -------------------------------------------------

app.command()(flow_run.run)
app.command()(flow_run.stop)
app.command()(flow_run.status)
app.command()(flow_test.test)
app.command()(flow_replay.replay)
