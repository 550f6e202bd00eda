"""The settings that the studies of all systems share."""

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from cemlib.config.base import Name, Section, distinct
from cemlib.config.data import DataConfig

Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(distinct)
]


class AnyStudy(Section):
    """The settings that the studies of all systems share."""

    experiment: Name = Field(
        description="name of the result folder and of the MLflow experiment; another study of this"
        " name replaces its results"
    )
    # Braces are wildcards to Snakemake, and a leading dash would be an option of a command.
    results: str = Field(
        "results", pattern=r"^[^-{}][^{}]*$", description="folder of all result folders"
    )
    threads: int = Field(
        1, ge=1, description="CPU threads of a job; they change the last bits of results"
    )
    data: DataConfig = Field(description="the images and their splits")
    system: str  # which system the study is of: a key of `cemlib.config.load.SYSTEMS`

    def data_slice(self) -> dict[str, Any]:
        """Return the settings of the prepared data, without the place of the images."""
        return self.data.plain("root")

    @abstractmethod
    def report_slice(self) -> dict[str, Any]:
        """Return the settings that tables and figures depend on."""
