"""The configuration of a study of split inference, and the slice that each job depends on."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from cemlib.config.attacks import AnyAttack, with_kinds
from cemlib.config.base import Name, Precision, Section, distinct
from cemlib.config.common import AnyStudy, Seeds
from cemlib.config.data import AugmentConfig
from cemlib.config.defences import DefenceConfig
from cemlib.config.errors import ConfigError, validated
from cemlib.config.sweeps import AnySweeps, ReportConfig, Settings, check_members

# Names of rules, targets and folders of the workflow, and beginnings of such names.
RESERVED = frozenset(
    {"all", "attack", "attack_closed_form", "closed_form", "federated", "figures", "judge", "page"}
    | {"pctc", "prepare", "published", "report_one", "tables", "track"}
    | {"track_one", "train", "training_figures"}
)
BEGINNINGS = ("worst_case", "pctc_", "federated_")
# The attacker's own classifier: undefended, and scored like a defence but never shown as one.
JUDGE = "judge"
JUDGE_SEED = 1_000_000_007  # a seed that no study uses
DECODING = ("decoder", "residual", "perceptual")  # attacks whose decoder others can start from
PRUNABLE = ("small", "vgg11")  # networks without shortcuts that tie widths to each other
Epochs = Annotated[tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(distinct)]


class ModelConfig(Section):
    """The split network."""

    name: Literal["small", "vgg11", "resnet20"] = Field(
        "small", description="key of cemlib.models.MODELS"
    )
    cut: int = Field(
        4,
        ge=1,
        description="layer entries on the client: 4 = two blocks and two pools of vgg11 or small; 8"
        " = up to the first block of resnet20's third stage",
    )
    dropout: float = Field(
        0.5, ge=0, lt=1, description="dropout in the head of vgg11 and small; resnet20 has none"
    )
    bottleneck: int = Field(8, ge=1, description="channels that the client releases")
    client_width: float = Field(
        1.0, gt=0, description="factor on the widths of the client's convolutions; not for resnet20"
    )
    server_width: float = Field(
        1.0, gt=0, description="factor on those of the server's convolutions; not for resnet20"
    )
    normalise: bool = Field(
        True,
        description="whether the client normalises each colour channel by its mean and deviation",
    )


class TrainConfig(Section):
    """Training of the classifier; docs/differences.md lists which defaults are not as published."""

    epochs: int = Field(240, ge=1, description="passes over the training images")
    batch_size: int = Field(128, ge=2, description="images per step")
    lr: float = Field(0.05, gt=0, description="SGD's highest learning rate")
    momentum: float = Field(0.9, ge=0, lt=1, description="SGD's momentum")
    nesterov: bool = Field(False, description="Nesterov's form of the momentum")
    weight_decay: float = Field(5e-4, ge=0, description="L2 term in the gradient of all parameters")
    schedule: Literal["milestones", "one_cycle"] = Field(
        "milestones",
        description="learning rate over the epochs: constant between milestones, or, step by step,"
        " up to `lr` and down to 0 on a cosine",
    )
    milestones: Epochs = Field(
        (60, 120, 180, 210), description="epochs after which the learning rate is multiplied"
    )
    decay: float = Field(0.2, gt=0, le=1, description="factor at each milestone")
    warm_up: float = Field(0.25, ge=0, lt=1, description="share of steps in which one_cycle rises")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="share of the target that is spread over all classes"
    )
    augment: AugmentConfig = Field(AugmentConfig(), description="changes of training images")
    precision: Precision = Field(
        "float32",
        description="arithmetic of the networks; auto: bfloat16 where the hardware supports it;"
        " surrogates always run in float32",
    )
    select: Literal["last", "best_val", "best_test"] = Field(
        "last",
        description="epoch to deploy; best_test, as in public code, is named in the warnings of"
        " summary, claims and page, and as `selected_on` in runs.csv",
    )

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and not self.momentum:
            raise ValueError(
                "nesterov has no effect with momentum 0; raise momentum or leave it out"
            )
        return self


_SectionT = TypeVar("_SectionT", bound=Section)


def _with(section: _SectionT, changes: Mapping[str, Any], key: str) -> _SectionT:
    """Return a section with some options changed; `key` names the changes in an error."""
    if not changes:
        return section
    try:
        return validated(type(section), _overlaid(section.plain(), changes))
    except ConfigError as error:
        faults = str(error).splitlines()
        raise ValueError("\n".join(f"{key}.{fault}" for fault in faults)) from error


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with others in their place; a null is a value, and removes nothing."""
    return {**below} | {
        option: _overlaid(below[option], value)
        if isinstance(value, Mapping) and isinstance(below.get(option), Mapping)
        else value
        for option, value in above.items()
    }


class Study(AnyStudy):
    """One experiment: a data set, a network, defences and the attacks on them."""

    system: Literal["split"] = Field("split", exclude=True)  # the system of a file that names none
    seeds: Seeds = Field((0, 1, 2), description="one run per defence and seed")
    model: ModelConfig = Field(ModelConfig(), description="the split network")
    train: TrainConfig = Field(TrainConfig(), description="training of the classifier")
    defences: dict[Name, DefenceConfig] = Field(
        min_length=1, description="sections by names of your choice, in the order of the tables"
    )
    attacks: Annotated[dict[Name, AnyAttack], BeforeValidator(with_kinds)] = Field(
        min_length=1,
        description="sections by name; `kind` selects the attack, by default that of this name",
    )
    reference: Name | None = Field(
        None,
        description="defence that the others are compared with; null = `noise` if there is one,"
        " otherwise the first",
    )
    sweeps: AnySweeps = Field(
        {},
        description="sections by name; each stands for a defence at every combination of some"
        " settings, which become defences of their own",
    )
    report: ReportConfig = Field(ReportConfig(), description="how sweeps are compared")

    @field_validator("defences", "attacks")
    @classmethod
    def _not_reserved(cls, named: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(n for n in named if n in RESERVED or n.startswith(BEGINNINGS))
        if taken:
            raise ValueError(f"{taken} are names of workflow targets or table rows; choose another")
        return named

    @model_validator(mode="after")
    def _reference_exists(self) -> Self:
        if self.reference in self.sweeps and self.reference not in self.defences:
            raise ValueError(
                f"reference: {self.reference!r} is a sweep; sweeps are compared with the first of"
                " them, so leave this out or name a defence"
            )
        if self.reference is not None and self.reference not in self.defences:
            raise ValueError(f"reference: {self.reference!r} is not among {list(self.defences)}")
        return self

    @model_validator(mode="after")
    def _sweeps_fit(self) -> Self:
        if self.report.match_accuracy and not self.sweeps:
            raise ValueError("report.match_accuracy: has no effect without `sweeps`; leave it out")
        check_members(self.sweeps, self.defences)
        return self

    @model_validator(mode="after")
    def _attacks_fit_each_other(self) -> Self:
        decoders: dict[str, int] = {}  # releases seen by the decoders that are listed so far
        for name, attack in self.attacks.items():
            if (name == "mean_image") != (attack.kind == "mean_image"):
                raise ValueError(
                    f"attacks.{name}: the report recognises the attack of kind mean_image by this"
                    " name; call that one mean_image, and no other"
                )
            start = attack.begins_with
            if start is not None and start not in decoders:
                raise ValueError(
                    f"attacks.{name}.start: {start!r} is not an attack listed before it that trains"
                    f" a decoder ({' or '.join(DECODING)}) on releases alone; add or name another"
                )
            if start is not None and decoders[start] != attack.releases:
                raise ValueError(
                    f"attacks.{name}.queries: {attack.releases}, but the decoder it starts from"
                    f" ({start}) was trained on {decoders[start]}; give both the same"
                )
            if attack.kind in DECODING and not attack.told_class:
                decoders[name] = attack.releases
        if min(attack.releases for attack in self.attacks.values()) > 1:
            raise ValueError("attacks: at least one must see a single release (`queries: 1`)")
        return self

    @model_validator(mode="after")
    def _pruning_is_possible(self) -> Self:
        for name, defence in self.defences.items():
            epochs, network = self.training(name).epochs, self.network(name).name
            if defence.pruning is not None and defence.pruning.epoch >= epochs:
                raise ValueError(
                    f"defences.{name}.pruning.epoch: {defence.pruning.epoch} is not before the last"
                    f" epoch ({epochs}); the pruned client must be trained on"
                )
            if defence.pruning is not None and network not in PRUNABLE:
                raise ValueError(
                    f"defences.{name}.pruning: shortcuts tie the layers of {network}"
                    f" to each other; prune {' or '.join(PRUNABLE)}"
                )
        return self

    def defence(self, name: str) -> DefenceConfig:
        """Return the settings of a defence, or of the judge."""
        return DefenceConfig(noise_std=0.0) if name == JUDGE else self.defences[name]

    def network(self, name: str) -> ModelConfig:
        """Return the network of a defence, or of the judge."""
        return _with(self.model, self.defence(name).model, f"defences.{name}.model")

    def training(self, name: str) -> TrainConfig:
        """Return how a defence is trained, or the judge, which always deploys its last epoch."""
        if name == JUDGE:
            return self.train.model_copy(update={"select": "last"})
        return _with(self.train, self.defences[name].train, f"defences.{name}.train")

    def train_slice(self, defence: str) -> dict[str, Any]:
        """Return the settings that the training of one defence depends on, for any seed."""
        return {
            "data": self.data_slice(),
            "model": self.network(defence).plain(),
            "train": self.training(defence).plain(),
            "defence": self.defence(defence).plain("model", "train"),
            "threads": self.threads,
        }

    def attack_slice(self, defence: str, attack: str) -> dict[str, Any]:
        """Return the settings that one attack on one defence depends on, for any seed."""
        settings = self.attacks[attack]
        sections = {**self.train_slice(defence), "attack": settings.plain()}
        mirrored = self.train.augment.flip
        own = sections["train"]["augment"]["flip"]
        if getattr(settings, "flip", False) and mirrored != own:  # the attacker follows the study
            sections["study"] = {"train": {"augment": {"flip": mirrored}}}
        if settings.begins_with is not None:
            sections["start"] = self.attacks[settings.begins_with].plain()
        return sections

    def report_slice(self) -> dict[str, Any]:
        """Return the settings of tables and figures: names in order, and comparisons."""
        return {
            "defences": list(self.defences),
            "attacks": list(self.attacks),
            "seeds": list(self.seeds),
            "reference": self.reference,
            "families": self.families(),
            "report": self.report.plain(),
        }

    def families(self) -> dict[str, dict[str, Settings]]:
        """Return, by sweep, the swept settings of its members, by the name of the defence."""
        return {name: sweep.members(name) for name, sweep in self.sweeps.items()}

    def closed_form_attacks(self) -> tuple[str, ...]:
        """Return the attacks without training, which share one job."""
        return tuple(name for name, attack in self.attacks.items() if attack.closed_form)

    def learned_attacks(self) -> tuple[str, ...]:
        """Return the attacks with a job of their own."""
        return tuple(name for name, attack in self.attacks.items() if not attack.closed_form)
