# The study's plan, checked before any job.
from cemlib.config import ConfigError
from cemlib.config import parse as parse_study
from cemlib.config.study import JUDGE
from cemlib.plan import JUDGE_SEED, Plan

try:
    PLAN = Plan(parse_study(config))
except ConfigError as error:
    files = ", ".join(map(str, workflow.overwrite_configfiles or workflow.configfiles))
    raise WorkflowError(f"{files}: the configuration cannot be used", error)

# Two busy processes whose idle threads spin would slow each other to a fraction.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Large tensors come and go in every step: keep their memory instead of mapping it anew each time.
for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
    os.environ.setdefault(name, str(2**32))

CONFIG = PLAN.layout.config
LOGS, BENCHMARKS = PLAN.layout.root / "logs", PLAN.layout.root / "benchmarks"
RUN = PLAN.layout.run("{defence}", "{seed}")


def relative(files):
    """Source files from the working directory: a moved checkout is not a changed input."""
    return [os.path.relpath(file) for file in files]


def closed_form_settings(wildcards):
    """What the closed-form attacks on one defence depend on."""
    attacks = PLAN.study.closed_form_attacks()
    return [PLAN.study.attack_slice(wildcards.defence, attack) for attack in attacks]


wildcard_constraints:
    defence="|".join(PLAN.study.defences),
    seed="|".join(map(str, PLAN.study.seeds)),
    attack="|".join(PLAN.study.learned_attacks()) or "none",
