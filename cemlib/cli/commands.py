"""The command line: every command with its options and examples."""

from pathlib import Path

from cemlib.cli import options, pctc, study
from cemlib.cli.before import doctor, estimate, init, match
from cemlib.cli.options import CONFIG, DEFENCE, DEVICE, SEED, SLOTS, STALE, URI, Command, Option
from cemlib.cli.results import KINDS, RUNS, names, show

ABOUT = (
    "Train defended split classifiers, attack them, and report utility against privacy. A command"
    " reads the configuration of one study, works on the whole study unless options narrow it, and"
    " prints the files that it wrote. Snakemake runs the same commands as jobs. Studies of the"
    " other systems have `run`, `list runs`, `show`, `doctor`, `track` and `publish`."
)


COMMANDS: dict[str, Command] = {
    "init": Command(
        init,
        [
            Option("name", metavar="NAME", help="name of the study and of its file"),
            Option(
                "--images",
                type=Path,
                default=Path("images"),
                metavar="FOLDER",
                help="folder with train/<class>/* and test/<class>/*, or with <class>/* (default:"
                " %(default)s)",
            ),
        ],
        ["cemlib init faces --images /path/to/faces"],
    ),
    "prepare": Command(
        study.prepare,
        CONFIG,
        [
            "cemlib prepare --config config/cifar10_short.yaml",
            "cemlib prepare --set results=elsewhere",
        ],
    ),
    "train": Command(
        study.train,
        [*CONFIG, DEFENCE, SEED, DEVICE],
        [
            "cemlib train --defence gated --seed 0",
            "cemlib train --defence noise --set train.lr=0.01 --set results=elsewhere",
        ],
    ),
    "attack": Command(
        study.attack,
        [
            *CONFIG,
            DEFENCE,
            SEED,
            DEVICE,
            Option(
                "--attack",
                completer=options.names_of("attacks"),
                action="append",
                metavar="NAME",
                help="only this attack; may be repeated",
            ),
        ],
        ["cemlib attack --defence gated --attack linear --attack decoder"],
    ),
    "report": Command(
        study.report,
        [
            *CONFIG,
            options.defence("only the tables of this defence"),
            Option(
                "--only",
                choices=("tables", "figures", "training_figures"),
                help="only this part",
            ),
            STALE,
        ],
        ["cemlib report --only tables"],
    ),
    "track": Command(
        study.track,
        [
            *CONFIG,
            DEFENCE,
            URI,
            Option(
                "--watch",
                action="store_true",
                help="keep uploading curves until all runs and attacks have ended",
            ),
        ],
        ["cemlib track --watch", "cemlib track --uri http://127.0.0.1:5000"],
    ),
    "run": Command(
        study.run,
        [
            *CONFIG,
            Option(
                "--only",
                completer=options.jobs,
                metavar="JOB",
                help="run only the job of this name, or all whose names begin with it, such as"
                " train/noise, in this process, even if finished; may be given once",
            ),
            DEVICE,
            SLOTS,
        ],
        [
            "cemlib run --config config/table1.yaml --slots 4",
            "cemlib run --config config/federated.yaml --only train/both/seed0",
        ],
    ),
    "estimate": Command(
        estimate,
        [*CONFIG, DEVICE, SLOTS],
        ["cemlib estimate --config config/cifar10.yaml --device cuda --slots 4"],
    ),
    "publish": Command(
        study.publish,
        [
            *CONFIG,
            Option("--compare", action="store_true", help="compare with what is published"),
            Option("--add", action="store_true", help="add these seeds to the published ones"),
        ],
        [
            "cemlib publish --config config/config.yaml",
            "cemlib publish --config config/config.yaml --set 'seeds=[5]' --add",
        ],
    ),
    "match": Command(
        match,
        [
            *CONFIG,
            DEVICE,
            SLOTS,
            options.defence("a defence or sweep of the study", required=True),
            Option(
                "--key",
                default="lambda",
                metavar="KEY",
                help="the setting to vary, any numeric key of a sweep but cut"
                " (default: %(default)s)",
            ),
            Option(
                "--accuracy",
                type=options.accuracy,
                required=True,
                metavar="PERCENT",
                help="validation accuracy to reach, mean over the seeds",
            ),
            Option(
                "--within",
                type=options.percent,
                default=0.3,
                metavar="POINTS",
                help="tolerance in percentage points (default: %(default)s)",
            ),
        ],
        [
            "cemlib match --config config/search_digits.yaml --defence clustering --key lambda"
            " --accuracy 96.5",
            "cemlib match --defence gated --accuracy 96 --set 'seeds=[0]'",
        ],
    ),
    "list": Command(
        names,
        [
            Option(
                "kind",
                nargs="?",
                choices=(*KINDS, RUNS),
                metavar="KIND",
                help=f"one of {', '.join(KINDS)} (default: all these), or {RUNS}, the status of the"
                " runs of a study",
            ),
            *CONFIG,
            STALE,
        ],
        [
            "cemlib list",
            "cemlib list attacks",
            "cemlib list runs --config config/cifar10_short.yaml",
        ],
    ),
    "show": Command(
        show,
        [
            Option(
                "run",
                completer=options.runs,
                metavar="RUN",
                help="folder of a run or an attack, or its name in the study: judge, DEFENCE/seedK"
                " or DEFENCE/seedK/ATTACK-KNOWLEDGE",
            ),
            *CONFIG,
            Option("--all", action="store_true", help="show all settings, including defaults"),
            STALE,
        ],
        [
            "cemlib show clustering/seed0",
            "cemlib show clustering/seed0/decoder-train_data",
            "cemlib show results/digits/judge --all",
        ],
    ),
    "doctor": Command(
        doctor,
        [*options.config(None, "a study, to check it as well"), URI],
        ["cemlib doctor --config config/cifar10.yaml"],
    ),
    **pctc.COMMANDS,
}
GROUPS = {"pctc": pctc.ABOUT}
