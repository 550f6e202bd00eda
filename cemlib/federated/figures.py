"""Draw the figures of a federated study: curves and pictures."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cemlib.config.federated import Federated
from cemlib.federated.inversion.scoring import WORST_CASE
from cemlib.federated.tables import Results, tradeoff_table
from cemlib.records.files import load_tensors
from cemlib.records.seal import checked
from cemlib.report.grid import Pictures, picture_rows, read_strip
from cemlib.report.statistics import mean_interval
from cemlib.report.style import (
    empty_figure,
    explain_empty,
    log_scale,
    looks,
    new_figure,
    readable,
    significant,
)
from cemlib.study.federated import attack_folder
from cemlib.study.plan import Plan

CURVES = {  # columns of the history of the clients' GANs, and their titles
    "d_loss": "loss of the discriminator",
    "g_loss": "loss of the generator",
    "variance": "variance of generated images",
    "drift": "change of fixed images in an epoch (MSE)",
}


def accuracy(plan: Plan[Federated], results: Results) -> Figure:
    """Draw validation accuracy by round, and its paired difference from the reference's."""
    finished = results.runs.loc[results.runs["status"] == "ok", ["defence", "seed"]]
    study, rounds = plan.study, results.rounds.merge(finished).set_index(["seed", "epoch"])
    reference = rounds.loc[rounds["defence"] == study.reference, "val_top1"]
    figure, (above, below) = new_figure(4.6, rows=2, share_x=True)
    for variant, look in looks(list(study.variants)).items():
        top1 = rounds.loc[rounds["defence"] == variant, "val_top1"]
        if top1.empty:
            continue
        _band(above, 100 * top1, variant, look.colour)
        if variant != study.reference:
            _band(below, 100 * (top1 - reference).dropna(), variant, look.colour)
    above.set_ylabel("validation accuracy [%]")
    below.set(xlabel="round", ylabel=f"minus {readable(study.reference)} [points]")
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    below.axhline(0, color="#555555", linewidth=0.8)
    if rounds.empty:
        explain_empty(above, "no variant finished a round")
    else:
        above.legend(ncols=3, loc="lower right")
    return figure


def _band(panel: Axes, values: "pd.Series[float]", name: str, colour: str) -> None:
    """Draw the mean over the seeds of values by seed and epoch, with its interval as a band."""
    groups = values.groupby(level="epoch")
    rounds = [int(str(epoch)) for epoch, _ in groups]
    found = [mean_interval(group.tolist()) for _, group in groups]
    panel.plot(rounds, [each.mean for each in found], color=colour, label=readable(name))
    low, high = [each.low for each in found], [each.high for each in found]
    panel.fill_between(rounds, low, high, color=colour, alpha=0.12, linewidth=0)


def tradeoff(plan: Plan[Federated], results: Results) -> Figure:
    """Draw the MSE of the strongest attack on each image against the test accuracy."""
    columns = ["top1_mean", "top1_ci_high", "mse_mean", "mse_ci_high"]
    rows = tradeoff_table(results, plan.study)[columns].to_numpy(dtype=float).tolist()
    figure, (panel,) = new_figure(3.4)
    style = looks(list(plan.study.variants)).items()
    for (variant, look), (top1, top1_high, mse, mse_high) in zip(style, rows, strict=True):
        if math.isnan(mse):
            continue
        half = float(np.nan_to_num(mse_high - mse))
        panel.errorbar(
            100 * top1,
            max(mse, 1e-12),
            xerr=np.nan_to_num(100 * top1_high - 100 * top1),
            yerr=[[min(half, 0.9 * mse)], [half]],  # must not reach 0 on a logarithmic axis
            color=look.colour,
            marker=look.marker,
            label=readable(variant),
            capsize=2,
            linestyle="none",
        )
    log_scale(panel)
    panel.set(xlabel="test accuracy [%]", ylabel="MSE of the strongest attack")
    if panel.containers:
        figure.legend(loc="outside right upper")
    else:
        explain_empty(panel, "no variant was trained and attacked without a failure")
    return figure


def convergence(plan: Plan[Federated], results: Results) -> Figure:
    """Draw losses, variance and change over the epochs of the GANs, mean over the clients."""
    seeds = looks([str(seed) for seed in plan.study.seeds])
    figure, panels = new_figure(4.2, columns=2, rows=2, share_x=True)
    for panel, (name, title) in zip(panels, CURVES.items(), strict=True):
        for seed, look in seeds.items():
            rows = results.gans[results.gans["seed"] == int(seed)]
            panel.plot(rows["epoch"], rows[name], color=look.colour, label=f"seed {seed}")
        panel.set_title(title)
    panels[2].axhline(plan.study.gan.v_e, color="#555555", linestyle="--", lw=0.8, label="v_e")
    panels[2].legend()
    panels[2].set_xlabel("epoch")
    panels[3].set_xlabel("epoch")
    if results.gans.empty:
        explain_empty(panels[0], "no GAN finished an epoch")
    else:
        panels[0].legend()
    return figure


def reconstructions(plan: Plan[Federated], results: Results) -> Figure:
    """Draw the first seed's true images above their reconstructions by the `strongest` attacks."""
    rows, originals = dict[str, Pictures | None](), None
    for variant in plan.study.variants:
        attack, error = strongest(results.attacks, variant)
        if attack is None:
            rows[f"{readable(variant)}\nan attack failed"] = None
            continue
        file = attack_folder(plan, variant, plan.study.seeds[0], attack).reconstructions
        originals, below = read_strip(checked(file))
        rows[f"{readable(variant)}\n{readable(attack)}, {significant(error, 2)}"] = below
    if originals is None:
        return empty_figure("on every variant an attack failed")
    blank = np.full_like(originals, 255)
    shown = {name: blank if row is None else row for name, row in rows.items()}
    return picture_rows({"original": originals} | shown, spacing=1.12)


def strongest(attacks: pd.DataFrame, variant: str) -> tuple[str | None, float]:
    """Return the attack of lowest mean MSE on a variant, and that MSE; (None, NaN) if one fails."""
    rows = attacks[(attacks["defence"] == variant) & (attacks["attack"] != WORST_CASE)]
    errors = rows.set_index("attack")["mse_mean"].astype(float)
    if errors.empty or errors.isna().any():
        return None, math.nan
    return str(errors.idxmin()), float(errors.min())


def pseudo(plan: Plan[Federated], results: Results) -> Figure:  # noqa: ARG001 - as every figure
    """Draw the first client's images of fixed noise, one of each class, at several epochs."""
    course = load_tensors(checked(plan.layout.gans(plan.study.seeds[0]).course))
    images = course["images"][0].numpy()  # (epochs, classes, C, H, W)
    pixels = (255 * images).round().astype(np.uint8).transpose(0, 1, 3, 4, 2)
    pixels = pixels.repeat(3, 4) if pixels.shape[4] == 1 else pixels
    rows = zip(course["epochs"].tolist(), pixels, strict=True)
    return picture_rows({f"epoch {epoch}": row for epoch, row in rows}, spacing=1.12)
