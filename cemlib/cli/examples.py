"""An example of every command, for its `--help` and docs/commands.md."""

EXAMPLES = {
    "prepare": ("cemlib prepare --config config/cifar10_short.yaml",),
    "train": ("cemlib train --defence gated --seed 0",),
    "attack": ("cemlib attack --defence gated --attack linear --attack decoder",),
    "report": ("cemlib report --only tables",),
    "track": ("cemlib track --watch", "cemlib track --uri http://127.0.0.1:5000"),
    "run": ("cemlib run --config config/table1.yaml --slots 4",),
    "estimate": ("cemlib estimate --config config/cifar10.yaml --device cuda --slots 4",),
    "publish": ("cemlib publish --config config/config.yaml",),
    "match": (
        "cemlib match --config config/search_digits.yaml --defence clustering --key lambda"
        " --accuracy 96.5",
    ),
    "list": (
        "cemlib list",
        "cemlib list attacks",
        "cemlib list runs --config config/cifar10_short.yaml",
    ),
    "show": (
        "cemlib show clustering/seed0",
        "cemlib show clustering/seed0/decoder-train_data --json",
        "cemlib show results/digits/judge --all",
    ),
    "compare": (
        "cemlib compare clustering noise",
        "cemlib compare results/digits/runs/gated results/other/runs/gated",
    ),
    "join": (
        "cemlib join datasets config/studies/datasets/cifar10.yaml"
        " config/studies/datasets/cifar100.yaml",
    ),
    "pctc": (
        "cemlib pctc",
        "cemlib pctc --config config/pctc_mnist.yaml --only repeat --repeat 3",
    ),
    "federated": (
        "cemlib federated",
        "cemlib federated --config config/federated_mnist.yaml --only train --variant both",
    ),
    "doctor": ("cemlib doctor --config config/cifar10.yaml",),
}
