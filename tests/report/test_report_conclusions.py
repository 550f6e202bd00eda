"""The conclusions in README and findings, and the published files, are those of the runs."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_study import DEFENCES, Study

from cemlib.config import load
from cemlib.records.files import write_json
from cemlib.records.scores import marked
from cemlib.report.build import Results, write_tables
from cemlib.report.statistics import holm
from cemlib.report.tables import read_runs
from docs.equal_accuracy import _tradeoff, differences
from docs.published import PAGES, published_claims, with_conclusions

ROOT = Path(__file__).parents[2]
AGAIN = "map_cifar10_again"
STRONG, LARGER = f"{AGAIN}+map_cifar10_clustering", "clustering_strong"
CIFAR100 = "map_cifar100_again+map_cifar100_clustering"
BOTH, VALUES = "sparse_image_aware", "With these values the error is N to N %"


def remade(start: str, root: Path = ROOT) -> str:
    """A page that has only the block with this first line, made again."""
    return with_conclusions(f"<!-- results/published/{start} -->\n<!-- end -->", root)


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_what_the_published_files_say(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "<!-- end -->" in text
    assert with_conclusions(text, ROOT) == text


@pytest.mark.parametrize(
    ("page", "study", "said", "family", "reference"),
    [
        ("README.md", STRONG, "is N to N % larger than with `clustering_strong`", BOTH, LARGER),
        ("README.md", CIFAR100, "and N to N % larger on CIFAR-100", BOTH, LARGER),
        ("README.md", CIFAR100, "`image_aware` alone is N to N % larger", "image_aware", LARGER),
        ("README.md", "lambda_rule_noise", "`gated` makes the error N to N %", "constant", "noise"),
        ("docs/findings.md", STRONG, f"seeds above were known. {VALUES}", LARGER, "noise"),
        ("docs/findings.md", CIFAR100, f"results above were known. {VALUES}", LARGER, "noise"),
        ("docs/findings.md", AGAIN, "another N to N % larger", BOTH, "sparse"),
        ("docs/findings.md", CIFAR100, "`image_aware` adds N to N %", BOTH, "sparse"),
        ("docs/findings.md", AGAIN, "`gated` adds N to N %", "sparse_gated", "sparse"),
    ],
)
def test_ranges_are_those_of_the_published_curves(
    page: str, study: str, said: str, family: str, reference: str
) -> None:
    """They span both attackers and all accuracies at which a family has a number."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    (found,) = re.findall(said.replace("N", r"([\d.]+)"), text)
    place = f"results/published/{study}"
    joined = _tradeoff(ROOT, place, None, ()) if "+" in study else None
    table = pd.read_csv(ROOT / place / "tradeoff.csv") if joined is None else joined
    mse = table.pivot(index=["knowledge", "accuracy"], columns="family", values="mse_mean")
    ratios = mse[family] / mse[reference]
    bounds = (ratios.min(), ratios.max())
    assert found == tuple(f"{100 * r - 100:.0f}" if "%" in said else f"{r:.1f}" for r in bounds)


def test_origins_count_trainings_and_attacks_that_had_not_converged() -> None:
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| \[`(\w+)`\].* \| (\d+) \| (\d+) of (\d+) \|", page, re.M)
    found = []
    for place in sorted(ROOT.glob("results/published/*/runs.csv")):
        with place.open(newline="") as file:
            rows = list(csv.DictReader(file))
        judged = [row["converged"] for row in rows if row["converged"]]
        trainings = {(row["defence"], row["seed"]) for row in rows}
        counts = (len(trainings), judged.count("False"), len(judged))
        found.append((place.parent.name, *map(str, counts)))
    assert said == found


def test_what_releases_take_is_that_of_the_published_runs() -> None:
    """Of the worst case on 16 releases, beside that on one and that of an undefended network."""
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    (table,) = re.findall(
        r"^\| defence \| lower, train_data .*\n\|[-:|]+\n((?:\|.*\n)+)", page, re.M
    )
    said = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    _, attacks = read_runs(ROOT / "results/published/attackers/runs.csv")
    mse = attacks.groupby(["queries", "knowledge", "defence", "seed"])["mse"].min()
    keys = {"adversarial learning": "arl"}
    assert len(said) == 6
    for name, *shown in said:
        found = []
        for knowledge in ("train_data", "public_data"):
            one, many = (mse[n, knowledge, keys.get(name, name)] for n in (1, 16))
            bare = mse[1, knowledge, "none"]
            found += [1 - many / one, (many - bare) / (one - bare)]
        assert shown == [f"{100 * ratio.mean():.0f} %" for ratio in found], name


def test_what_random_features_add_is_that_of_the_published_runs() -> None:
    """How much smaller the error is than the decoder's: ranges with a defence, and without one."""
    page = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    said = re.findall(
        r"its error is ([\d.]+) to ([\d.]+) % smaller with public data and ([\d.]+) to ([\d.]+) %"
        r" smaller with the training data \(means over the seeds\), and ([\d.]+) and ([\d.]+) %",
        page,
    )
    _, attacks = read_runs(ROOT / "results/published/attackers_features/runs.csv")
    mse = attacks.pivot(index=["defence", "knowledge", "seed"], columns="attack", values="mse")
    ratios = np.log(mse["random_features"] / mse["decoder"])
    assert len(ratios) == 56
    assert (ratios < 0).all()
    less = 100 - 100 * np.exp(ratios.groupby(["knowledge", "defence"]).mean())
    known = [less["public_data"], less["train_data"]]
    defended = [each.drop("none") for each in known]
    found = [end for each in defended for end in (each.min(), each.max())]
    assert said == [tuple(f"{n:.1f}" for n in [*found, *(each["none"] for each in known)])]


def test_factors_against_stronger_attacks_are_those_of_the_published_runs() -> None:
    """On one release, for both attackers, and on 16, for the one with public data."""
    page = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    number = r"(\d\.\d(?: to \d\.\d)?) times that with"
    said = re.findall(
        rf"is {number} noise, {number} `clustering`, and {number} sparse coding", page
    )
    _, attacks = read_runs(ROOT / "results/published/attackers_again/runs.csv")
    found = []
    for releases, knowledges in ((1, ("train_data", "public_data")), (16, ("public_data",))):
        seen = attacks[attacks["queries"] <= releases]
        worst = seen.groupby(["knowledge", "defence", "seed"])["mse"].min()
        mse = worst.groupby(["knowledge", "defence"]).mean()
        rows = []
        for other in ("noise", "clustering", "sparse"):
            factors = {f"{mse[k, 'sparse_image_aware'] / mse[k, other]:.1f}" for k in knowledges}
            rows.append(" to ".join(sorted(factors)))
        found.append(tuple(rows))
    assert said == found


def test_factors_of_the_coding_are_those_of_the_published_runs() -> None:
    """Bold where the two attacks differ significantly, and † where one had not converged."""
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| with \| `residual`.*\n\|[-:|]+\n((?:\|.*\n)+)", page, re.M)
    said = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    _, attacks = read_runs(ROOT / "results/published/attackers_coding/runs.csv")
    attacks = attacks[attacks["attack"].isin(["residual", "decoder"])]
    wide = attacks.pivot(index=["knowledge", "seed", "attack"], columns="defence")
    found, p = [], []
    for name in ("noise", "clustering", "gated", "slot"):
        pair = [name, f"{name}_sparse"]
        ratios = np.log(wide["mse"][pair[1]] / wide["mse"][pair[0]]).unstack("attack").astype(float)
        late = ~wide["converged"][pair].astype(bool).all(axis=1).unstack("attack")
        for knowledge in ("train_data", "public_data"):
            there = ratios.loc[knowledge]
            p.append(stats.ttest_rel(there["residual"], there["decoder"]).pvalue)
            means, unfinished = np.exp(there.mean()), late.loc[knowledge].any()
            both = ("residual", "decoder")
            found.append([marked(f"{means[attack]:.2f}", unfinished[attack]) for attack in both])
    for cells, corrected in zip(found, holm(p), strict=True):
        if corrected < 0.05 and "†" not in "".join(cells):
            cells[0] = f"**{cells[0]}**"
    shown = [row[start : start + 2] for row in said for start in (1, 3)]
    assert shown == found


def test_gradients_of_photographs_are_those_of_the_published_tables() -> None:
    page = (ROOT / "docs/federated.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`(\w+)`\]\([^|]*\|[^|]*\| (.*) \|$", page, re.M)
    assert len(rows) >= 5
    for study, said in rows:
        table = pd.read_csv(ROOT / f"results/published/{study}/privacy.csv")
        mse = table.set_index(["variant", "attack"])["mse_mean"]
        worst = [mse["none", "worst_case"], mse["mask", "worst_case"]]
        shown = [*worst, mse["mask", "cosine"], mse["none", "mean_image"]]
        assert [float(number) for number in said.split(" | ")] == [
            float(f"{value:.2g}") for value in shown
        ]


def test_differences_have_no_column_for_an_accuracy_without_any() -> None:
    folder = "results/published/ablations_gated"
    table = pd.read_csv(ROOT / folder / "tradeoff.csv")
    found = table.groupby("accuracy")["difference"].count()
    assert found[43.5] == 0 < found[45.5]
    head = differences(ROOT, folder).strip().splitlines()[0]
    assert head == "| family | 45.5 %, train_data | 45.5 %, public_data |"


def test_a_block_has_the_worst_case_and_the_claims(full_study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "results/published/some"
    results = Results(*full_study.frames(), DEFENCES)
    write_tables(results, full_study.root, folder)
    settings = {
        "experiment": "some",
        "data": {"source": "digits"},
        "defences": {name: {} for name in DEFENCES},
        "attacks": {"linear": {}},
    }
    (tmp_path / "some.yaml").write_text(json.dumps(settings))
    command = "snakemake --configfile some.yaml"
    made = {"seeds": [0, 1], "commits": ["0123456789"], "command": command}
    write_json(folder / "provenance.json", made)
    page = with_conclusions(
        "Before.\n<!-- results/published/some -->\nold\n<!-- end -->\nAfter.\n", tmp_path
    )
    assert page.startswith("Before.\n<!-- results/published/some -->\n\n| defence |")
    assert page.endswith("<!-- end -->\nAfter.\n")
    assert "old" not in page
    assert "mean over 2 seeds" in page
    assert f"Commit 0123456, `{command}`." in page
    rows = re.findall(
        r"^\| (\w+) \|.*\| ([\d.]+) ± [\d.]+ \| [\d.]+ ± [\d.]+ \| [\d.]+ ± [\d.]+ \|$", page, re.M
    )
    worst = pd.read_csv(folder / "summary.csv").query(
        "attack == 'worst_case' and knowledge == 'train_data'"
    )
    assert [name for name, _ in rows] == worst["defence"].tolist()
    assert [float(mse) for _, mse in rows] == pytest.approx(worst["mse_mean"].tolist(), rel=0.01)
    claims = (folder / "claims.md").read_text().split("## ")[1]
    assert [line[2:] for line in page.splitlines() if line.startswith("* ")] == [
        line[2:] for line in claims.splitlines() if line.startswith("- ")
    ]


def test_published_claims_are_those_of_the_published_runs() -> None:
    """`make reference` writes them anew."""
    for place, text in published_claims(ROOT):
        assert place.read_text() == text, place


def test_a_block_of_a_study_with_sweeps_has_a_row_of_each() -> None:
    def rows_of(chosen: str = "") -> list[tuple[str, str]]:
        page = remade(f"map_faces_again{chosen}")
        return re.findall(r"^\| (\w[\w, .λσ]+) \| [\d.]+ ± [\d.]+ \| ([\d.]+)†? ", page, re.M)

    rows = rows_of()
    assert rows_of(" of clustering") == [rows[0], rows[3]]
    assert [name.split(",")[0] for name, _ in rows] == [
        *("none", "sparse image aware", "noise", "clustering")
    ]
    summary = pd.read_csv(ROOT / "results/published/map_faces_again/summary.csv")
    worst = summary.query("attack == 'worst_case' and knowledge == 'train_data'")
    mse = worst.set_index("defence")["mse_mean"]
    assert float(dict(rows)["none"]) == pytest.approx(mse["none"], rel=0.01)
    # The last accuracy is 63 %, and the least accurate mean of `clustering` is 64.9 %.
    name = "clustering_lambda14_noise_std0p1"
    assert float(dict(rows)["clustering, λ 14, σ 0.1"]) == pytest.approx(mse[name], rel=0.01)


def joined(root: Path, config: str, changed: str = "") -> str:
    """A page with two of the map's families, and one of a study with the runs of `clustering`."""
    (root / "config").symlink_to(ROOT / "config")
    shutil.copytree(ROOT / "results/published/map_cifar10", root / "results/published/map_cifar10")
    members = load(ROOT / "config/studies/map/cifar10.yaml").families()
    theirs = load(ROOT / config).families().get("bido", {})
    runs = pd.read_csv(root / "results/published/map_cifar10/runs.csv")
    renamed = {"none": "none", **dict(zip(members["clustering"], theirs, strict=False))}
    runs["defence"] = runs["defence"].map(renamed)
    folder = root / "results/published/mine"
    folder.mkdir()
    runs.dropna(subset="defence").to_csv(folder / "runs.csv", index=False)
    write_json(folder / "provenance.json", {"command": f"cemlib run --config {config}{changed}"})
    return remade("map_cifar10+mine at 45.5 % of arl, clustering, bido", root)


def test_a_joined_family_is_read_as_if_it_were_of_the_study(tmp_path: Path) -> None:
    lines = joined(tmp_path, "config/studies/map/bido.yaml").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:]] for line in lines if "|" in line]
    rows = {(row[0], row[1]): row for row in cells}
    assert len(cells) == 2 + 2 * 3
    for knowledge in ("train_data", "public_data"):
        ours, theirs = rows[knowledge, "bido"], rows[knowledge, "clustering"]
        assert "-" not in ours
        assert ours[2:] == theirs[2:]


def test_a_sweep_that_two_studies_have_is_one_with_the_settings_of_both(tmp_path: Path) -> None:
    """The two halves of the map's noise, and its `clustering`, make the map's own numbers."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    runs = pd.read_csv(ROOT / "results/published/map_cifar10/runs.csv", low_memory=False)
    every = load(ROOT / "config/studies/map/cifar10.yaml").families()
    for study, levels, kept in (("a", [0.025, 0.2], ["clustering"]), ("b", [0.1, 0.4], [])):
        sweeps = {name: None for name in every if name not in kept}
        sweeps["noise"] = {"over": {"noise_std": levels}}
        config = {"extends": "config/studies/map/cifar10.yaml", "sweeps": sweeps}
        write_json(tmp_path / f"{study}.yaml", config)
        own = runs["defence"].isin(load(tmp_path / f"{study}.yaml").defences)
        folder = tmp_path / "results/published" / study
        folder.mkdir(parents=True)
        runs[own].to_csv(folder / "runs.csv", index=False)
        write_json(folder / "provenance.json", {"command": f"cemlib run --config {study}.yaml"})
    halves, whole = (
        remade(f"{study} at 45.5 % of noise, clustering", root).splitlines()[1:]
        for study, root in (("a+b", tmp_path), ("map_cifar10", ROOT))
    )
    corrected = re.compile(r" \| [\d.]+ (?=\| [\d.]+ \| 8 \|$)")  # over fewer families
    assert [corrected.sub("", line) for line in halves] == [
        corrected.sub("", line) for line in whole
    ]
    sweeps["noise"]["sparse_coding"] = True
    write_json(tmp_path / "b.yaml", config)
    with pytest.raises(ValueError, match="b: its noise differs in more than the swept values"):
        remade("a+b compared", tmp_path)


def test_families_chosen_beside_the_studys_first_keep_its_correction() -> None:
    start = "map_cifar100_again at 37 %"
    whole, part = (remade(f"{start}{of}").splitlines()[2:] for of in ("", " of noise, clustering"))
    kept = re.compile("family|---|noise|clustering")
    assert part == [line for line in whole if " | " not in line or kept.search(line)]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("/map_cifar10 compare -->", "no such block"),
        ("/map_cifar10 compared", "no such block"),
        (" compared -->", "no such block"),
        ("/attackers compared -->", "published/attackers: its study has no sweeps"),
        ("/attackers of nix -->", "published/attackers: no family nix"),
        ("/map_cifar10 compared without nix -->", "map_cifar10: no family nix"),
        ("/map_cifar10 of noise, arll -->", r"no family arll \(it has noise, clustering"),
        ("/map_cifar10 compared of noise, arll -->", "no family arll"),
        ("/digits -->\n<!-- results/published/digits -->", "no `<!-- end -->` before the next"),
    ],
)
def test_a_block_that_cannot_be_made_is_refused(block: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_conclusions(f"<!-- results/published{block}\n<!-- end -->", ROOT)


@pytest.mark.parametrize("end", ["", "<!-- end --> ", " <!-- end -->"])
def test_a_block_whose_end_is_not_found_is_refused(end: str) -> None:
    with pytest.raises(ValueError, match="not alone on its line"):
        with_conclusions(f"<!-- results/published/digits -->\nold\n{end}\n", ROOT)


def test_families_left_out_leave_the_others() -> None:
    ours, theirs = (
        remade(f"map_whole compared {which}")
        for which in ("without image_aware", "of noise, clustering, sparse")
    )
    assert ours.splitlines()[1:] == theirs.splitlines()[1:]
    assert re.findall(r"^\| `(\w+)`", ours, re.M) == ["clustering", "sparse"]


def test_chosen_families_are_compared_with_the_first_of_them() -> None:
    """The difference of two families changes its sign with their order."""

    def rows(chosen: str) -> list[list[str]]:
        lines = remade(f"map_cifar10 at 45.5 % of {chosen}").splitlines()
        return [line.split(" | ") for line in lines if line.startswith("| ")][2:]

    ours, theirs = rows("sparse, arl"), rows("arl, sparse")
    assert [row[1] for row in ours] == ["sparse", "arl"] * 2
    assert [row[1] for row in theirs] == ["arl", "sparse"] * 2
    assert [float(row[6]) for row in ours[1::2]] == [-float(row[6]) for row in theirs[1::2]]
    assert [row[2:6] for row in ours[::2]] == [row[2:6] for row in theirs[1::2]]
    block = remade("map_cifar10 compared of arl, sparse")
    (head, _, only) = re.findall(r"^\| (.*) \|$", block, re.M)
    assert head.split(" | ")[1] == "45.5 %, train_data"
    share = float(theirs[1][6]) / float(theirs[0][2].split()[0])
    assert only.startswith(f"`sparse` | **{100 * share:+.0f} %** | ")


@pytest.mark.parametrize(
    ("config", "changed", "fault"),
    [
        ("attackers", "", "mine: its attacks differ"),
        ("map/factors", "attacks.decoder.images=null", r"mine: channels_16_\w+ has a network"),
        ("map/cifar10", "", r"mine: \w+ is in another of these studies already"),
    ],
)
def test_what_differs_or_is_there_already_does_not_join(
    config: str, changed: str, fault: str, tmp_path: Path
) -> None:
    more = f" --set {changed}" if changed else ""
    with pytest.raises(ValueError, match=fault):
        joined(tmp_path, f"config/studies/{config}.yaml", more)


def test_differences_are_those_of_the_studys_own_table() -> None:
    """In % of the MSE behind noise, and bold where p is below 0.05, as in its `tradeoff.csv`."""
    text = remade("map_cifar10 compared")
    head, *rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    found = {row[0].strip("| `"): [cell.strip(" |") for cell in row[1:]] for row in rows[1:]}
    table = pd.read_csv(ROOT / "results/published/map_cifar10/tradeoff.csv")
    table = table.set_index(["accuracy", "knowledge", "family"]).sort_index()
    for column, title in enumerate(cell.strip(" |") for cell in head[1:]):
        accuracy, knowledge = title.split(" %, ")
        at = table.loc[float(accuracy), knowledge]
        for family, row in at.drop("noise").iterrows():
            share = 100 * row["difference"] / at.loc["noise", "mse_mean"]
            cell = "-" if pd.isna(share) else f"{share:+z.0f} %"
            expected = f"**{cell}**" if row["p_holm"] < 0.05 else cell
            assert found[family][column] == expected


def test_holms_correction_is_that_of_the_studys_own_table() -> None:
    """Over both accuracies that the study names, as in its `tradeoff.csv`."""
    table = pd.read_csv(ROOT / "results/published/map_cifar10/tradeoff.csv")
    for row in table.dropna(subset="p_holm").to_dict("records"):
        line = rf"^\| {row['knowledge']} \| {row['family']}†? \|.*$"
        (found,) = re.findall(line, remade(f"map_cifar10 at {row['accuracy']} %"), re.M)
        assert float(found.split("|")[-4]) == pytest.approx(row["p_holm"], rel=0.06)
