"""Attack every defence on handwritten digits and one network: the table of the docs.

`python -m cemlib.federated.inversion.trial` needs no study and no clients: the network is trained
centrally for `--steps` steps (0: its random start), and what stands in for a pseudo image is
another real image of the same class, which a perfect generator would make.
"""

import argparse
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from cemlib.config.data import DataConfig
from cemlib.config.federated_attacks import DpSgd, InversionStudy
from cemlib.data.digits import digits
from cemlib.data.pixels import to_float
from cemlib.federated.client import Masking, descend, gradients, mixed
from cemlib.federated.inversion.evaluate import run_attacks
from cemlib.federated.inversion.summary import summary
from cemlib.federated.inversion.variants import Scene, standard_variants
from cemlib.federated.network import FederatedNet, build, weights_of
from cemlib.numerics.seeds import derive, generator

CLASSES = 10
BATCH, LR = 32, 0.3

Labelled = tuple[Tensor, Tensor]


def attacked_and_others(count: int) -> tuple[Labelled, Labelled]:
    """Return the last images and labels, which are attacked, and all others."""
    raw = digits(DataConfig(source="digits", image_size=8), None)
    images, labels = to_float(raw.train_images), raw.train_labels
    return (images[-count:], labels[-count:]), (images[:-count], labels[:-count])


def trained(others: Labelled, steps: int, seed: int) -> FederatedNet:
    """Train the small network for so many steps of gradient descent."""
    torch.manual_seed(derive(seed, "trial_start"))
    net = build("lenet", num_classes=CLASSES, image_shape=(1, 8, 8))
    weights, draws = weights_of(net), generator(seed, "trial_batches")
    for _ in range(steps):
        rows = torch.randint(len(others[1]), (BATCH,), generator=draws)
        slope, _ = gradients(net, weights, others[0][rows], others[1][rows])
        weights = descend(weights, slope, LR)
    net.load_state_dict(weights)
    return net


def scene_of(attacked: Labelled, others: Labelled, ratio: float, seed: int) -> Scene:
    """Return what is attacked, with the others' class means as the attacker's."""
    images, labels = attacked
    of_class = [others[0][others[1] == label] for label in range(CLASSES)]
    draws = generator(seed, "trial_pseudo")
    rows = [int(torch.randint(len(of_class[c]), (), generator=draws)) for c in labels.tolist()]
    pseudo = torch.stack([of_class[c][row] for c, row in zip(labels.tolist(), rows, strict=True)])
    prior = torch.stack([group.mean(0) for group in of_class])
    ratios = torch.full((len(labels),), ratio)
    return Scene(images, labels, mixed(images, pseudo, ratio), ratios, prior)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table as Markdown."""
    options = _parser().parse_args(arguments)
    attacked, others = attacked_and_others(options.images)
    variants = standard_variants(
        Masking(options.alpha, options.beta), DpSgd(noise_multiplier=options.noise)
    )
    attacks = InversionStudy().attacks
    start, seeds = time.process_time(), []
    for seed in range(options.seeds):
        net = trained(others, options.steps, seed)
        scene = scene_of(attacked, others, options.ratio, seed)
        seeds.append(run_attacks(net, scene, variants, attacks, seed=seed).rows)
    found = {(row["defence"], row["attack"]): row for row in summary(seeds)}
    names = [*attacks, "worst_case"]
    print("| attack | " + " | ".join(variants) + " |")
    print("|---|" + "---|" * len(variants))
    for name in names:
        cells = [_cell(found[defence, name]) for defence in variants]
        print(f"| `{name}` | " + " | ".join(cells) + " |")
    print(f"\n{time.process_time() - start:.0f} s of CPU time")


def _cell(row: dict[str, float | None]) -> str:
    mean, low, high = (row[f"mse_{end}"] for end in ("mean", "ci_low", "ci_high"))
    if mean is None:
        return "failed"
    ends = "" if low is None or high is None else f" [{max(low, 0.0):.4f}, {high:.4f}]"
    return f"{mean:.4f}{ends}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=32, help="images that are attacked")
    parser.add_argument("--seeds", type=int, default=3, help="networks, mixtures and masks")
    parser.add_argument("--steps", type=int, default=0, help="training steps before the attack")
    parser.add_argument("--ratio", type=float, default=0.5, help="share of the true image")
    parser.add_argument("--alpha", type=float, default=0.5, help="share of pruned features")
    parser.add_argument("--beta", type=float, default=0.5, help="share of outputs that are pruned")
    parser.add_argument("--noise", type=float, default=0.03, help="of DP-SGD, in units of its clip")
    return parser


if __name__ == "__main__":
    main()
