"""Options of every surrogate, and of those that keep clusters: `clustering` and `gmm`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cemlib.config.base import Named


class SurrogateConfig(Named):
    """Options of any surrogate: its weight in the loss, and how it follows the learning rate."""

    lambda_: float = Field(
        16.0, alias="lambda", ge=0, description="weight before scaling by the learning rate"
    )

    lr_scaling: bool = Field(
        True,
        description="lambda_eff = lambda * 0.001 / learning rate, and lambda itself at the last"
        " rates (below 4.1e-4); false = lambda at every rate",
    )


class Hinge(SurrogateConfig):
    """A surrogate that penalises variance above a ceiling."""

    var_threshold: float = Field(
        0.125, gt=0, description="ceiling of the hinge, as a fraction of the noise variance"
    )


class Clustering(Hinge):
    """K-means per class, hinge on the scalar variance of each cluster (the CEM baseline)."""

    name: Literal["clustering"] = "clustering"
    clusters: int = Field(5, ge=1, description="clusters per class")
    gate: Literal["log", "linear"] = Field("log", description="form of the hinge")
    gamma: float = Field(0.01, gt=0, description="offset inside the logarithms")
    variance: Literal["scalar", "diagonal"] = Field(
        "scalar", description="one variance per cluster, or per cluster and dimension"
    )
    form: Literal["blended", "batch"] = Field(
        "blended",
        description="batch moments blended with stored ones, or squared norms of the batch alone",
    )
    reference_indexing: bool = Field(
        False, description="read weights and variances from the row that the public code reads"
    )

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        for option, needed in (("variance", "scalar"), ("reference_indexing", False)):
            if self.form == "batch" and getattr(self, option) != needed:
                raise ValueError(
                    f"{option} is {getattr(self, option)!r}; form 'batch' allows only {needed!r}"
                )
        return self


class Gmm(SurrogateConfig):
    """Gaussian mixture per class by EM, the paper's bound on the mutual information."""

    name: Literal["gmm"] = "gmm"
    clusters: int = Field(5, ge=1, description="components per class")
    covariance: Literal["diagonal", "full"] = Field(
        "diagonal", description="covariance of each component"
    )
