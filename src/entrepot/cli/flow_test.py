# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow test`: the unit tests of flows, from files beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json, pair

if TYPE_CHECKING:
    from entrepot.flows.trials.verdicts import CaseVerdict


def test(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE|FOLDER...", help="Test files; folders give all *.test.yaml.")
    ],
    only: Annotated[str, typer.Option("--only", "-k", metavar="TEXT", help="Run cases with this in their name.")] = "",
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="OUT.xml", help="Write a JUnit report there.")
    ] = None,
    project: Annotated[
        list[Path] | None,
        typer.Option("--project", metavar="FOLDER", help="Where a .msgflow finds what it refers to; may be repeated."),
    ] = None,
    java: Annotated[
        list[str] | None,
        typer.Option(
            "--java", metavar="CLASS=MODULE:FUNCTION", help="The Python that stands for a JavaCompute's class."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run the test cases of flows: messages in, outputs, errors and ways compared; exit code 1 if any is otherwise.

    A file `pricing.test.yaml` beside `pricing.yaml` or `pricing.msgflow` holds cases. Nothing else is needed: queues,
    topics and timers are in memory, databases are SQLite in memory, and nodes that talk to others can be replaced by
    what they answer.
    """
    stand_ins = dict(pair(text, "a class", "com.shop.Price=shop:price") for text in java or ())
    verdicts = [verdict for file in _files(paths) for verdict in _verdicts(file, only, project or (), stand_ins)]
    if junit is not None:
        junit.write_bytes(_junit(verdicts))
    if json:
        output.print_json([_fields(verdict) for verdict in verdicts])
    else:
        _tell(verdicts)
    if not verdicts:
        output.note(f"No case has {only!r} in its name." if only else "There are no cases.")
    if not verdicts or not all(verdict.passed for verdict in verdicts):
        raise typer.Exit(1)


def _files(paths: list[Path]) -> list[Path]:
    """Every test file, once, in order; a flow stands for the test file beside it."""
    from entrepot.flows.loading import IBM_SUFFIXES
    from entrepot.flows.trials.cases import SUFFIX

    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob(f"*{SUFFIX}"))
            if not inside:
                raise typer.BadParameter(f"{path} has no *{SUFFIX} in it")
            found.update(dict.fromkeys(inside))
            continue
        beside = path.with_name(path.stem + SUFFIX)
        chosen = beside if not path.name.endswith(SUFFIX) and beside.exists() else path
        if not chosen.exists():
            raise typer.BadParameter(f"{path}: there is no such file or folder")
        if not chosen.name.endswith(SUFFIX) and chosen.suffix.lower() in IBM_SUFFIXES:
            raise typer.BadParameter(f"{path} is a flow, and its cases are missing: write them to {beside.name}")
        found[chosen] = None
    return list(found)


def _verdicts(file: Path, only: str, projects: Sequence[Path], java: Mapping[str, str]) -> list[CaseVerdict]:
    """What came of a file's cases; a file that cannot be run hides nothing of the others."""
    from entrepot.errors import EntrepotError
    from entrepot.flows.trials.cases import read_test_file
    from entrepot.flows.trials.verdicts import CaseVerdict, run_test_file

    try:
        return list(run_test_file(read_test_file(file), only=only, projects=projects, java=java))
    except EntrepotError as error:
        return [CaseVerdict(str(file), "(the file)", str(file), [str(error)])]
    except OSError as error:
        return [
            CaseVerdict(str(file), "(the file)", str(file), [f"{error.filename or file}: {error.strerror or error}"])
        ]


def _fields(verdict: CaseVerdict) -> dict[str, Any]:
    return {
        "file": verdict.file,
        "case": verdict.case,
        "where": verdict.where,
        "passed": verdict.passed,
        "problems": verdict.problems,
        "elapsed_ms": verdict.elapsed_ms,
    }


def _tell(verdicts: list[CaseVerdict]) -> None:
    from rich.text import Text

    out = output.console()
    for verdict in verdicts:
        mark = ("passed", "green") if verdict.passed else ("failed", "bold red")
        took = (f"  {verdict.elapsed_ms:.0f} ms", "dim")
        out.print(Text.assemble(mark, f"  {output.safe(verdict.file)}: {output.safe(verdict.case)}", took))
        if not verdict.passed:
            out.print(Text(f"        {output.safe(verdict.where)}", style="dim"))
        for problem in verdict.problems:
            lines = output.safe(problem).splitlines()
            out.print(Text("\n".join(f"        {line}" for line in lines)))
    failed = sum(not verdict.passed for verdict in verdicts)
    summary = f"{len(verdicts)} case{'' if len(verdicts) == 1 else 's'}, {failed or 'none'} failed."
    output.say(summary, "bold red" if failed else "green")


def _junit(verdicts: list[CaseVerdict]) -> bytes:
    """The form that build servers read."""
    from lxml import etree

    root = etree.Element("testsuites")
    for file in dict.fromkeys(verdict.file for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.file == file]
        suite = etree.SubElement(
            root,
            "testsuite",
            name=file,
            tests=str(len(own)),
            failures=str(sum(not verdict.passed for verdict in own)),
            time=f"{sum(verdict.elapsed_ms for verdict in own) / 1000:.3f}",
        )
        for verdict in own:
            case = etree.SubElement(
                suite, "testcase", classname=file, name=verdict.case, time=f"{verdict.elapsed_ms / 1000:.3f}"
            )
            if not verdict.passed:
                text = output.safe("\n".join(verdict.problems))
                etree.SubElement(case, "failure", message=output.safe(verdict.problems[0])).text = text
    written: bytes = etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)
    return written
