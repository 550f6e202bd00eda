"""Describe experiments and reports in Markdown, which a reader sees first in MLflow."""

from collections.abc import Mapping

LONGEST = 8000  # characters of a description, which MLflow keeps as a tag
# The description of an experiment. Its link opens the charts of runs that match a filter; a version
# of MLflow without these parameters shows all runs.
STUDY = """\
[Charts of all trainings](#/experiments/{id}/runs?searchFilter=tags.kind%20%3D%20%27run%27\
&compareRunsMode=CHART). The main result is in the description of the run `report`. One run per \
defence and seed; the attacks on it are nested below (the + beside its name).

In studies of split inference:

* Columns to tick in the list: `top1` (accuracy), and below `worst_case/train_data` `mse`, `ssim`
  and `identified`: the strongest attack on the training by an attacker who has its images.
* A higher `mse`, and a lower `ssim`, `identified` and `leakage_nats`, is better for the defender.
  Metrics `curve/...` are the course over epochs, others final scores on the test images.
* Means over seeds: in the charts, *Group by* the tag `defence`.
"""


def describe_report(experiment: str, files: Mapping[str, bytes]) -> str:
    """Describe the report: its main tables, then what explains them, as far as it fits."""
    text = f"Tables and figures of the study `{experiment}`; all of them are under *Artifacts*."
    accuracy, summary, claims, tradeoff = (
        files.get(f"tables/{name}.md", b"").decode()
        for name in ("accuracy", "summary", "claims", "tradeoff")  # split inference lacks the first
    )
    head, *tables = summary.split("\n## ")
    worst = [f"#### {table}" for table in tables if table.startswith("Worst case")]
    for part in (accuracy, *worst, head, claims, tradeoff):
        if part and len(text) + len(part) + 2 <= LONGEST:
            text += f"\n\n{part.strip()}"
    return text
