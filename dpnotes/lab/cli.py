"""The command line: build the book, execute a chapter, manage its results and its data.

Every command is a few lines over :mod:`dpnotes.lab.chapters`, :mod:`dpnotes.lab.store`
and :mod:`dpnotes.data`. These packages are imported where they are used, after what was
typed and the file of a table are checked, so ``dpnotes --help`` is quick, ``guarantee``
needs no extra, and ``compare``, ``audit`` and ``data`` need only the extra [learn].
"""

from __future__ import annotations

import math
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from dpnotes import __version__
from dpnotes._extras import MissingExtra

_LISTED = 10  # missing rows that `results status` names of each experiment

_OUT = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="DPNOTES_RUNS",
    help="Folder for executed chapters and rows.  [default: runs in the book's"
    " folder, or $DPNOTES_RUNS]",
)
_STORE = click.Path(exists=True, dir_okay=False, path_type=Path)
_TARGET = click.option(
    "--target",
    default="",
    help="Column of the classes.  [default: the last column, or y]",
)
_SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
_JOBS = click.option(
    "-j",
    "--jobs",
    type=int,
    default=1,
    show_default=True,
    help="Rows or fits at a time; -1 for all cores.",
)


class _Fault(click.ClickException):
    """A foreseen error, with the exit code of an error of usage: 1 is a verdict."""

    # click's own errors of usage end with 2
    exit_code = 2


class _Commands(click.Group):
    """Commands whose foreseen errors end as one line; any other error is a fault of
    ours and keeps its traceback.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, OSError, RuntimeError, MissingExtra) as error:
            if (
                ctx.params["traceback"]
                or isinstance(error, BrokenPipeError)
                # of ours: a report needs the traceback
                or not _foreseen(error)
            ):
                raise
            # of a cell, which shows what the chapter did
            if trace := getattr(error, "trace", ""):
                click.echo(f"{trace}\n", err=True)
            raise _Fault(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpnotes")
@click.option("--traceback", is_flag=True, help="Show where an error came from.")
def main(traceback: bool) -> None:
    """Differential privacy in machine learning: an executable book and its library."""


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--force", is_flag=True, help="Overwrite files of the book that you changed."
)
def book(folder: Path, force: bool) -> None:
    """Copy the book into FOLDER, for a package that was installed without a checkout.

    The copy has the chapters, settings and published rows. The commands build, run and
    results then work in FOLDER and below it. A second call updates FOLDER to the
    installed version, but does not overwrite files that you changed.
    """
    from dpnotes.lab import chapters

    # what the reader changed is kept and named
    written, kept = chapters.lay_out(folder, force=force)
    click.echo(f"{_short(folder)}: {len(written)} files written")
    for name in kept:
        click.echo(
            f"  not overwritten, because you changed it: {name} (--force overwrites it)"
        )
    click.echo(
        f"next: cd {_short(folder)}, then dpnotes run bagging -p scale quick, or"
        " dpnotes build"
    )


@main.command()
@click.option(
    "--strict", is_flag=True, help="Re-read every page and treat warnings as errors."
)
@click.option("--force", is_flag=True, help="Execute unchanged chapters too.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Chapters at a time.",
)
@click.option(
    "--pdf",
    is_flag=True,
    help="Also print the pages into one PDF; needs the extra [pdf] and Chromium.",
)
def build(strict: bool, force: bool, jobs: int, pdf: bool) -> None:
    """Build the book: execute the chapters that changed, then make the pages."""
    from dpnotes.lab import chapters

    # nothing is built if a chapter fails
    chapters.build(strict=strict, force=force, jobs=jobs)
    if pdf:
        click.echo(_short(chapters.print_book()))


@main.command()
@click.argument("chapter")
@click.option(
    "-p",
    "--parameter",
    "given",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="Override a chapter parameter; may be given several times.",
)
@_OUT
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="List the chapter's parameters and run nothing.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Execute the chapter even if nothing has changed since the last execution.",
)
def run(
    chapter: str,
    given: Sequence[tuple[str, str]],
    out: Path | None,
    listed: bool,
    force: bool,
) -> None:
    """Execute a CHAPTER with your parameters, and make a page of it to open in a
    browser.

    For example: dpnotes run bagging -p scale quick. Lists are written as in Python: -p
    subsample_sizes "[200, 800]". Runs with other parameters or another table get
    separate notebooks and pages.
    """
    from dpnotes.lab import chapters
    from dpnotes.lab.store import load, publish

    # an unknown name ends it here, with the known ones
    chosen = chapters.chapter(chapter)
    if listed:
        _table(
            (p.name, repr(p.default), p.valid, p.help)
            for p in chosen.parameters.values()
        )
        return
    try:
        parameters = chosen.check(dict(given))
    # of what was typed, so that it is one line
    except TypeError as error:
        raise _Fault(str(error)) from error
    folder = (out or chosen.root / "runs").absolute()
    # where the chapter's sweeps keep their rows
    os.environ["DPNOTES_RUNS"] = str(folder)
    # other parameters get another notebook
    notebook = folder / f"{chosen.run_name(parameters)}.ipynb"
    # an execution takes minutes, and would show the same
    if not force and chapters.is_unchanged(chosen, parameters, notebook):
        click.echo(
            f"{chosen.name}: nothing has changed since the last execution; --force"
            " executes it again"
        )
    else:
        _check_data(
            chosen.name,
            {p.name: p.default for p in chosen.parameters.values()} | parameters,
        )
        click.echo(
            f"{chosen.name}: running; results are saved in {_short(folder)}{os.sep} as"
            " they finish"
        )
        try:
            seconds = chapters.execute(chosen, parameters, notebook, echo=True)
        except KeyboardInterrupt:
            _interrupted("finished rows are saved; the same command continues")
        click.echo(f"{chosen.name}: {seconds:.1f} s")
    click.echo(_short(notebook))
    # rows of this chapter that the run has made, as tables
    for rows in sorted(
        path for path in folder.glob(f"{chosen.name}_*") if path.is_dir()
    ):
        table = rows.with_suffix(".csv")
        publish(load(rows).values(), table)
        click.echo(_short(table))
    # a reader opens the page, not the notebook
    page = chapters.page_of(notebook)
    click.echo(f"open {_short(page)}, or {page.as_uri()} in a browser")


@main.group()
def results() -> None:
    """Published results: list, complete, adopt and verify them."""


@results.command("status")
@click.argument("names", nargs=-1, metavar="[NAME|CHAPTER]...")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help=f"List all missing rows, not only the {_LISTED} slowest.",
)
def results_status(names: Sequence[str], everything: bool) -> None:
    """Show which rows of each paper's grid are published, recomputed or missing, and
    how long the missing rows take.

    Without NAME, the command covers all experiments.
    """
    from dpnotes.lab import backlog, store
    from dpnotes.lab.experiments import computed_again

    for experiment in backlog.chosen(names):
        rows = backlog.tasks(experiment)
        missing = [task for task in rows if task.state != "published"]
        # the slowest are what a decision is about
        missing.sort(key=lambda task: task.seconds, reverse=True)
        if not rows:
            continue
        text = f"{experiment.name}: {len(rows) - len(missing)} of {len(rows)} rows"
        text += " published"
        # nothing can have been computed again without a file
        published = store.published_store(experiment.name)
        if published.is_file():
            text += f" (computed again: {computed_again(store.read_store(published))})"
        if missing:
            total = _duration(sum(task.seconds for task in missing))
            text += f", {len(missing)} missing ({total} on one core"
            finished = [task for task in missing if task.state == "finished"]
            if finished:
                text += f"; {len(finished)} finished in runs: dpnotes results adopt"
            text += ")"
        click.echo(text)
        # some grids lack hundreds
        shown = missing if everything else missing[:_LISTED]
        _table((_duration(task.seconds), *_varied(task, rows)) for task in shown)
        if len(shown) < len(missing):
            click.echo(
                f"  and {len(missing) - len(shown)} more: dpnotes results status --all"
            )
    runs = store.runs_store("any").parent
    # a killed row goes on from there
    if begun := store.unfinished(runs):
        click.echo(
            f"checkpoints of unfinished rows: {len(begun)}"
            f" ({_size(sum(begun.values()))}), in {runs}"
        )


@results.command("run")
@click.argument("names", nargs=-1, metavar="[NAME|CHAPTER]...")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.0, min_open=True),
    help="Time budget.  [default: none]",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
)
@_JOBS
@_OUT
def results_run(
    names: Sequence[str],
    minutes: float | None,
    device: str,
    jobs: int,
    out: Path | None,
) -> None:
    """Run the missing rows of the papers' grids, cheapest first: rows that are neither
    published nor in the runs.

    Without NAME, the command covers all experiments. It does not start a row whose
    expected time exceeds the rest of the budget. Each row is saved as it finishes, so
    the same command continues where an earlier run ended.

    The expected time of a row is its experiment's estimate, multiplied by the median
    ratio of measured to estimated time over the measured rows.
    """
    from dpnotes.lab import backlog
    from dpnotes.lab.store import runs_store

    if out:
        # workers and kernels read it from there
        os.environ["DPNOTES_RUNS"] = str(out.absolute())
    seconds = 60 * minutes if minutes else math.inf
    try:
        done = backlog.fill(names, seconds=seconds, device=device, n_jobs=jobs)
    except KeyboardInterrupt:
        _interrupted("finished rows are saved; the same command continues")
    click.echo(f"{done.finished} rows finished")
    if done.left:
        first = done.left[0]
        total = sum(task.seconds for task in done.left)
        click.echo(
            f"{len(done.left)} rows left out: the cheapest (from"
            f" {first.experiment.name}) would take {_duration(first.seconds)}, all"
            f" together {_duration(total)}"
        )
    # what a download would add
    for name, count in done.without_data.items():
        click.echo(
            f"{count} rows need data that are not here: dpnotes data fetch {name}"
        )
    if done.finished:
        click.echo(
            "next: dpnotes results adopt, which takes the rows from"
            f" {_short(runs_store('any').parent)}{os.sep}"
        )
    for error in done.failures:
        # the rows that failed, after what was achieved
        click.echo(str(error), err=True)
    if done.failures:
        raise click.ClickException(
            f"rows that failed: {len(done.failures)}; the others were run"
        )


@results.command()
@click.argument(
    "paths", nargs=-1, type=click.Path(path_type=Path), metavar="[NAME|PATH]..."
)
@click.option(
    "--replace",
    is_flag=True,
    help="Let rows with other metrics replace published ones.",
)
def adopt(paths: Sequence[Path], replace: bool) -> None:
    """Add finished rows of the papers' grids from runs to the published results.

    Without NAME or PATH, the command covers every experiment in the folder of runs.
    PATH is the folder of an experiment, or a published file from another branch.
    """
    from dpnotes.lab import store as sweep
    from dpnotes.lab.experiments import EXPERIMENTS, find

    # there must be one: rows are not adopted into the installed package
    # raises where there is none
    sweep.book_folder()
    stores = []
    for path in paths:
        # what is no path is the name of an experiment
        store = path if path.exists() else sweep.runs_store(find(str(path)).name)
        if not store.exists():
            raise _Fault(f"no rows of {path} in {_short(store.parent)}{os.sep}")
        stores.append(store)
    if not paths:
        every = [sweep.runs_store(name) for name in EXPERIMENTS]
        stores = [store for store in every if store.is_dir()]
    if not stores:
        click.echo(
            "nothing to adopt: no rows in"
            f" {_short(sweep.runs_store('any').parent)}{os.sep}"
        )
    # unknown ones are noticed before the first is adopted
    experiments = [find(path.stem) for path in stores]
    for path, experiment in zip(stores, experiments, strict=True):
        destination = sweep.published_store(experiment.name)
        # rows that a reader made with other parameters are not published
        grid = experiment.grids.get("paper", list)()
        new, same = sweep.adopt(
            path,
            destination,
            experiment=experiment.function,
            grid=grid,
            replace=replace,
        )
        text = f"{_short(destination)}: {new} new rows, {same} were there already"
        if others := len(sweep.read_store(path)) - new - same:
            text += f"; {others} rows outside the paper's grid stay in {_short(path)}"
        click.echo(text)


@results.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Rows from each experiment.",
)
@click.option(
    "--cheapest", is_flag=True, help="Take the cheapest rows instead of random rows."
)
@click.option(
    "--keep/--no-keep",
    default=True,
    show_default=True,
    help="Save the findings next to the results.",
)
def verify(names: Sequence[str], sample: int, cheapest: bool, keep: bool) -> None:
    """Compute a random sample of published rows again, and compare the results.

    Without NAME, the command covers every experiment that has published rows. It leaves
    out rows whose data sets are not here. The exit code is 1 if a row disagrees or no
    row could be computed. Afterwards, `results status` and the pages report the
    findings.
    """
    from dpnotes.lab import backlog, store as sweep
    from dpnotes.lab.experiments import VERIFICATIONS

    # over all experiments, for the exit code
    disagreeing = computed = 0
    for experiment in backlog.chosen(names):
        listed = backlog.tasks(experiment)
        rows = [task for task in listed if task.state == "published"]
        # rows whose data are not here cannot be computed
        here = [task for task in rows if not task.needs]
        if len(here) < len(rows):
            needed = sorted({name for task in rows for name in task.needs})
            click.echo(
                f"{experiment.name}: {len(rows) - len(here)} of {len(rows)} rows need"
                f" data that are not here: dpnotes data fetch {' '.join(needed)}"
            )
        drawn = backlog.sample(here, sample, cheapest=cheapest)
        if not drawn:
            continue
        computed += len(drawn)
        # so that nobody waits without knowing how long
        longest = _duration(max(task.seconds for task in drawn))
        click.echo(
            f"{experiment.name}: computing {len(drawn)} of {len(rows)} rows again; the"
            f" longest took {longest}"
        )
        table = sweep.verify(
            experiment.function,
            sweep.published_store(experiment.name),
            sample=[task.key for task in drawn],
            tolerance=experiment.tolerance,
            # beside the results, for status and pages
            keep=sweep.published_store(VERIFICATIONS) if keep else None,
        )
        wrong = table[~table["agrees"]]
        disagreeing += len(wrong)
        click.echo(
            f"  {len(table) - len(wrong)} of {len(table)} metrics in"
            f" {table['row'].nunique()} rows agree"
        )
        if len(wrong):
            click.echo(wrong.drop(columns="agrees").to_string(index=False))
    if disagreeing:
        raise click.ClickException(
            f"{disagreeing} metrics differ from the published ones by more than the"
            " tolerance"
        )
    if not computed:
        raise click.ClickException("no row could be computed again")


@main.group()
def data() -> None:
    """Data sets: list them, and download them."""


@data.command("status")
def data_status() -> None:
    """List every data set, and show whether it is here and intact."""
    from dpnotes import data

    _table(
        (d.name, d.state, _size(d.bytes), d.path or "", d.note) for d in data.status()
    )


@data.command()
@click.argument("table", type=_STORE)
@_TARGET
def draft(table: Path, target: str) -> None:
    """Draft the file NAME.toml, with blanks for the public facts about TABLE."""
    from dpnotes import data

    # to the terminal: the file is the reader's to write
    click.echo(data.draft(table, target))


@data.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def fetch(names: Sequence[str]) -> None:
    """Download data sets into the data folder."""
    from dpnotes import data

    for name in names:
        click.echo(data.fetch(name))


class _Mechanisms(click.Group):
    """Subcommands that are read off the accounting functions when they are asked
    for.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        from dpnotes.lab.guarantee import commands

        # once they are asked for: the functions import much
        self.commands = {str(command.name): command for command in commands()}
        return list(self.commands)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return self.commands.get(name) if name in self.list_commands(ctx) else None


@main.group(cls=_Mechanisms)
def guarantee() -> None:
    """Compute the guarantee of a mechanism, or the noise that a guarantee needs.

    For example: dpnotes guarantee bagging --n 60000 --subsample 500
    """


@main.command()
@click.argument("training", metavar="FILE.py:NAME")
@click.option(
    "--data",
    "table",
    type=_STORE,
    required=True,
    help="A .csv or .npz file; the .toml file of the same name has its bounds.",
)
@_TARGET
@click.option(
    "--epsilon",
    type=float,
    help="Epsilon of the claim.  [default: the estimator's; none for a function]",
)
@click.option(
    "--delta", type=float, default=0.0, show_default=True, help="Delta of the claim."
)
@click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "zero-out", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="Adjacency of the claim.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0, min_open=True),
    default=120.0,
    show_default=True,
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Number of training runs, instead of a time budget.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True)
@_JOBS
@_SEED
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the findings, from which the same command continues.",
)
def audit(training: str, table: Path, keep: Path | None, **given: Any) -> None:
    """Train NAME from FILE.py repeatedly, and test whether the results refute a privacy
    claim.

    For example: dpnotes audit script.py:train --data table.csv --epsilon 1 --delta
    1e-5. NAME is a function train(X, y, seed) or an unfitted estimator. The bounds of
    the table map its numbers to [-1, 1]; text becomes indicators of its categories.
    Training uses all records. The exit code is 1 if the claim is refuted, 0 if it is
    not, and 2 after an error.
    """
    from dpnotes.lab.own_training import audit_table

    context = click.get_current_context()
    try:
        # options have the names of its parameters
        report = audit_table(training, table, keep=keep, **given)
    except KeyboardInterrupt:
        saved = "nothing was saved; --keep FILE saves the findings"
        if keep:
            saved = f"the findings are saved in {keep}; the same command continues"
        _interrupted(saved)
    # of the script, too: none may look like a claim that is refuted
    except Exception as error:
        if context.find_root().params["traceback"]:
            traceback.print_exc()
        kind = "" if _foreseen(error) else f"{type(error).__name__}: "
        click.echo(f"Error: {kind}{error}", err=True)
        context.exit(2)
    click.echo(report)
    # 0 and 1 are verdicts, 2 is an error
    context.exit(int(report.refuted))


@main.command("compare")
@click.argument("table", type=_STORE)
@_TARGET
@click.option("--epsilon", type=float, required=True)
@click.option("--delta", type=float, default=0.0, show_default=True)
@click.option(
    "--public",
    is_flag=True,
    help="Required: says that everyone may see this table, and what is found on it.",
)
@click.option(
    "--repeats",
    type=int,
    default=10,
    show_default=True,
    help="Splits into records to fit and to test.",
)
@_JOBS
@_SEED
def compare_methods(
    table: Path, target: str, public: bool, jobs: int, seed: int, **given: Any
) -> None:
    """Compare the private learners on TABLE (.csv or .npz), which must be public.

    For example: dpnotes compare older.csv --target ill --epsilon 1 --delta 1e-5
    --public. For a private table, take NoisyBoosting without a comparison.
    """
    from dpnotes.data import load_file

    # the flag is a statement, not a choice
    if not public:
        raise click.UsageError(
            "a comparison releases what it finds without any protection: give --public"
            " if everyone may see this table. For a private one take NoisyBoosting,"
            " which needs no comparison"
        )
    own = load_file(table, target=target)
    # before the learners are imported: faults of the file are told at once
    X, y = own.records()
    from dpnotes.comparing import compare, shown

    found = compare(X, y, bounds=(-1, 1), random_state=seed, n_jobs=jobs, **given)
    click.echo(shown(found).to_string(index_names=False))
    for name, note in found["note"][found["note"] != ""].items():
        click.echo(f"Not fitted: {name}: {note}")
    # values that count as missing could hide a wrong file
    for told in own.unread():
        click.echo(f"Note: {told}.")


def _interrupted(left: str) -> NoReturn:
    """Say what Ctrl-C has left, and exit as a shell does."""
    click.echo(f"\nInterrupted: {left}", err=True)
    sys.exit(130)


def _check_data(chapter: str, parameters: Mapping[str, Any]) -> None:
    """Look at a reader's own file, and say which data sets are not here that rows of
    the paper's grids need.
    """
    from dpnotes.lab import backlog, own_data
    from dpnotes.lab.intrinsic_sgd import data as intrinsic_sgd

    if parameters.get("dataset"):
        # one chapter takes names of tasks, too
        located = (
            intrinsic_sgd.located
            if chapter.startswith("intrinsic_sgd")
            else own_data.reference
        )
        located(parameters["dataset"], parameters["target"])
    elif (
        parameters.get("compute", "stored") != "stored"
        and parameters.get("scale") != "quick"
    ):
        # evidence reads the rows of its chapter
        of = backlog.chosen([chapter.removesuffix("_evidence")])
        rows = [task for each in of for task in backlog.tasks(each)]
        missing = [task for task in rows if task.state == "missing"]
        for names, count in backlog.without_data(missing).items():
            click.echo(
                f"{count} rows of the papers' grids need data that are not here:"
                f" dpnotes data fetch {names}"
            )


def _foreseen(error: BaseException | None) -> bool:
    """Tell whether an error says by itself what a user did wrong or what is missing.

    That of an experiment travels as the cause of a RuntimeError that names the row.
    """
    # that of a BookError
    if isinstance(error, ValueError | OSError | MissingExtra) or hasattr(
        error, "trace"
    ):
        return True
    return (
        isinstance(error, RuntimeError)
        and error.__cause__ is not None
        and _foreseen(error.__cause__)
    )


def _table(rows: Iterable[Iterable[object]]) -> None:
    """Print rows in aligned columns."""
    # text first: widths are of what is printed
    lines = [[str(cell) for cell in row] for row in rows]
    # as wide as the widest cell of a column
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  " + "  ".join(map(str.ljust, line, widths)).rstrip())


def _varied(task: Any, rows: Sequence[Any]) -> list[str]:
    """Cells of a row's parameters, without those that are the same in all rows of its
    grid.
    """
    cells = []
    # rows of one grid may differ in their parameters
    for name in dict.fromkeys(name for row in rows for name in row.parameters):
        if len({str(row.parameters.get(name)) for row in rows}) > 1:
            given = task.parameters.get(name)
            cells.append(f"{name}={given!r}" if name in task.parameters else "")
    return cells


def _duration(seconds: float) -> str:
    # the largest unit that fits
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count else ""


def _short(path: Path) -> str:
    """Path as a user would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
