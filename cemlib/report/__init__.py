"""Tables and figures of a study, made from the files of its result folder and nothing else.

`cemlib.report.build` has the functions that write them. Only the names of the files are here, so
that a workflow can ask for them without loading pandas and matplotlib.
"""

TABLES = (
    "runs.csv",
    "summary.csv",
    "comparisons.csv",
    "summary.md",
    "summary.tex",
    "summary.html",
    "comparisons.html",
    "claims.md",
)
FIGURES = (
    "accuracy",
    "privacy",
    "psnr",
    "per_image_mse",
    "identification",
    "accuracy_mse",
    "accuracy_ssim",
    "attack_curves",
    "recognition_course",
    "training_curves",
)
RELEASES = "releases"  # of a study whose attacks see different numbers of releases
SWEEP_TABLES = ("tradeoff.csv", "frontier.csv")  # of a study that has sweeps
CLUSTER_COURSE = "cluster_course"


def reconstructions_name(attack: str, knowledge: str) -> str:
    """Name of the figure of one attack's reconstructions, without its ending."""
    return f"reconstructions_{attack}-{knowledge}"


def extremes_name(knowledge: str) -> str:
    """Name of the figure of the least and most protected images, without its ending."""
    return f"extremes-{knowledge}"


def forest_name(knowledge: str) -> str:
    """Name of the figure of the differences to the reference, without its ending."""
    return f"comparisons-{knowledge}"


def frontier_name(knowledge: str) -> str:
    """Name of the figure of the curves of a study's sweeps, without its ending."""
    return f"frontier-{knowledge}"


def surrogate_course_name(defence: str) -> str:
    """Name of the figure of how one defence's surrogate worked, without its ending."""
    return f"surrogate_{defence}"
