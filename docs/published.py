"""Make the tables of the documentation from the published studies.

In the pages of `PAGES`, `make reference` replaces what stands between one of these lines and
`<!-- end -->`:

    <!-- results/published/<study> -->
        the worst case of every defence under the first knowledge, the claims, and the origin of
        the numbers; of a study with sweeps the worst case of the defences in its pictures, and the
        origin
    <!-- results/published/<study> at 93.5 % -->
        the privacy of the study's sweeps at an accuracy
    <!-- results/published/<study> compared -->
        the differences from the first sweep at all of the study's accuracies, in %
    <!-- results/published origins -->
        where the numbers of every study of split inference come from; for pages in `docs`

`at` and `compared` also take the sweeps of several studies, `<study>+<other>`; a sweep that two of
them have becomes one with the settings of both. After each of the first three, `of noise, gated`
leaves only these sweeps, and `without noise, gated` all but these. `at` and `compared` compare with
the first sweep that is left.

It also writes every published `claims.md`. Everything is computed from the published runs,
whichever version of cemlib published them.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from cemlib.records.files import read_json
from cemlib.records.scores import SCORES
from cemlib.report.build import Results
from cemlib.report.claims import claims, sentences, warnings
from cemlib.report.frontier import Sweeps, equally_accurate
from cemlib.report.publish import ORIGIN
from cemlib.report.style import readable
from cemlib.report.texts import STRONGEST, paper_document
from cemlib.report.writer import markdown_table
from docs.equal_accuracy import all_but, at_accuracy, check_known, differences, published_runs

PAGES = (
    "README.md",
    "docs/start.md",
    "docs/findings.md",
    "docs/findings_tables.md",
    "docs/board.md",
    "docs/surrogates/clustering.md",
    "docs/surrogates/gated.md",
    "docs/surrogates/image_aware.md",
    "docs/surrogates/slot.md",
)
PUBLISHED = "results/published"
_START = re.compile(
    rf"<!-- ({PUBLISHED}/[\w+]+)(?:( compared)| at ([\d.]+) %)?(?: (of|without) ([\w, ]+))? -->"
)
_ORIGINS = f"<!-- {PUBLISHED} origins -->"
_BLOCK = re.compile(rf"^(<!-- {PUBLISHED}[^\n]*)$(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)
_LEFT_OUT = (SCORES["leakage_nats"].heading, SCORES["psnr"].heading, STRONGEST)


def with_conclusions(text: str, root: Path) -> str:
    """Return a page with every block made again from the published files below a folder.

    Raises:
        ValueError: if the first line of a block is none of those above, names a sweep that the
            study lacks, or needs sweeps where it has none; or if a block has no end, or its first
            line or its end is not alone on its line.
    """

    def made(block: re.Match[str]) -> str:
        start, old = block.groups()
        if f"<!-- {PUBLISHED}" in old:
            raise ValueError(f"{start}: no `<!-- end -->` before the next block")
        return f"{start}\n{_made(start, root)}<!-- end -->"

    page, blocks = _BLOCK.subn(made, text)
    if blocks < text.count(f"<!-- {PUBLISHED}"):
        raise ValueError("a block lacks `<!-- end -->`, or one of the two is not alone on its line")
    return page


def _made(start: str, root: Path) -> str:
    if start == _ORIGINS:
        return origins(root)
    if not (found := _START.fullmatch(start)):
        raise ValueError(f"{start}: no such block (see docs/published.py)")
    folder, compared, accuracy, word, listed = found.groups()
    names = tuple(listed.split(", ")) if listed else ()
    if word == "without":
        names = all_but(root, folder, names)
    if compared:
        return differences(root, folder, names)
    if accuracy:
        return at_accuracy(root, folder, float(accuracy), names)
    return conclusions(root, folder, names)


def conclusions(root: Path, folder: str, chosen: tuple[str, ...] = ()) -> str:
    """Return the worst case and the claims of one published study in Markdown.

    A study with sweeps has only the rows of its pictures, and no claims about single defences. With
    chosen families it has the rows of no others.
    """
    found = _results(root, folder)
    summary, knowledge = found.summary, found.attacks["knowledge"].iloc[0]
    check_known(folder, chosen, found.sweeps.families)
    if (sweeps := found.sweeps).families:
        points = found.points[found.points["knowledge"] == knowledge]
        shown = {name for family in chosen or sweeps.families for name in sweeps.families[family]}
        pictured = [
            name
            for name in equally_accurate(found.defences, points, sweeps)
            if name in shown or name not in sweeps.titles()
        ]
        summary = summary[summary["defence"].isin(pictured)].replace({"defence": sweeps.titles()})
        told = []
    else:
        reference = found.compared["reference"].iloc[0]
        told = [f"Each defence minus `{reference}`, on the same seeds:", ""]
        told += [f"* {sentence}" for sentence in sentences(found.compared)[readable(knowledge)]]
    told += [f"* {sentence}" for sentence in warnings(summary)]
    table = replace(paper_document(summary, _LEFT_OUT).tables[0], caption="")
    parts = [markdown_table(table), _caption(root / folder, readable(knowledge)), "\n".join(told)]
    return "\n" + "\n\n".join(filter(None, parts)) + "\n\n"


def published_claims(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each published `claims.md`, and the text that this version makes of the runs."""
    for place in sorted(root.glob(f"{PUBLISHED}/*/claims.md")):
        found = _results(root, str(place.parent.relative_to(root)))
        yield place, claims(found.decisive, warnings(found.summary))


def _caption(folder: Path, knowledge: str) -> str:
    made = read_json(folder / ORIGIN)
    commits = [commit[:7] for commit in made["commits"]]
    return (
        f"Attacker with {knowledge}; mean over {len(made['seeds'])} seeds ± half width of the 95 %"
        f" interval. Commit{'s' * (len(commits) > 1)} {', '.join(commits)},"
        f" `{made['command']}`."
    )


def origins(root: Path) -> str:
    """Return where the numbers of the published studies of split inference come from, in Markdown.

    The attacks are all but those in closed form, over all defences and seeds.
    """
    heads = ["study", "images", "network", "seeds", "trainings", "not converged", "CPU", "commits"]
    lines = [heads, ["---"] * 4 + ["---:"] * 2 + ["---"] * 2]
    for place in sorted(root.glob(f"{PUBLISHED}/*/runs.csv")):  # other systems have none
        study, runs, attacks = published_runs(root, str(place.parent.relative_to(root)))
        made, judged = read_json(place.parent / ORIGIN), attacks["converged"].dropna()
        name, size = place.parent.name, study.data.image_size
        lines.append(
            [
                f"[`{name}`](../{PUBLISHED}/{name})",
                f"{study.data.source}, {size}x{size}",
                f"{study.model.name}, cut {study.model.cut}",
                ", ".join(map(str, made["seeds"])),
                f"{len(runs)}",
                f"{(~judged.astype(bool)).sum()} of {len(judged)}",
                re.sub(r"\d+ x |\(R\)| Processor", "", made["processors"]),
                ", ".join(f"`{commit[:7]}`" for commit in made["commits"]),
            ]
        )
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


@cache
def _results(root: Path, folder: str) -> Results:
    """Return the results of a published study, without the scores of single images."""
    study, runs, attacks = published_runs(root, folder)
    sweeps = Sweeps(study.families(), study.report.match_accuracy)
    return Results(runs, attacks, [*study.defences], study.reference, sweeps, has_images=False)
