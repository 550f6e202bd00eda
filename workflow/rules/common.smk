# The study's plan, checked before any job.
import hashlib
import tempfile
from pathlib import Path

from cemlib.config.study import JUDGE
from cemlib.files import FileError
from cemlib.plan import JUDGE_SEED
from cemlib.report.contents import figure_entry, strip_entry, table_entry
from cemlib.study.standing import failed_results

PLAN = planned(SPLIT)
CONFIG = PLAN.layout.config
LOGS, BENCHMARKS = PLAN.layout.root / "logs", PLAN.layout.root / "benchmarks"
RUN = PLAN.layout.run("{defence}", "{seed}")
CAPTIONS = tempfile.TemporaryDirectory(prefix="cemlib-captions-")


def caption(text):
    """A file with a caption, for as long as this process runs: Snakemake takes no text."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    file = Path(CAPTIONS.name) / f"{name}.rst"
    file.write_text(text, encoding="utf-8")
    return str(file)


def marked(file, entry):
    """A file that `snakemake --report` shows, at its place there."""
    return report(
        file,
        caption=caption(entry.caption),
        category=entry.category,
        subcategory=entry.subcategory,
        labels={"title": entry.title},
    )


def in_report(files, ending, entry):
    """Files, those of one ending marked for the report: it cannot show a CSV file or LaTeX."""
    return [
        marked(file, entry(file)) if file.suffix == ending else file for file in files
    ]


def strips_in_report():
    """The reconstructions of each defence's first seed, by every attack."""
    seed = PLAN.study.seeds[0]
    return [
        marked(attack.reconstructions, strip_entry(attack.reconstructions, defence))
        for defence in PLAN.study.defences
        for attack in PLAN.attacks(defence)
        if attack.root.is_relative_to(PLAN.layout.run(defence, seed).root)
    ]


def closed_form_settings(wildcards):
    """What the closed-form attacks on one defence depend on."""
    attacks = PLAN.study.closed_form_attacks()
    return [PLAN.study.attack_slice(wildcards.defence, attack) for attack in attacks]


def tell_failed_results():
    """Say which runs and attacks diverged."""
    try:
        for line in failed_results(PLAN.layout.root, SYSTEMS[SPLIT].jobs(PLAN, "auto")):
            print(line, file=sys.stderr)
    except FileError as error:
        print(f"error: {error}", file=sys.stderr)


wildcard_constraints:
    defence="|".join(PLAN.study.defences),
    seed="|".join(map(str, PLAN.study.seeds)),
    attack="|".join(PLAN.study.learned_attacks()) or "none",
