"""What every section of the configuration has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen, refuses unknown keys, and takes no value of a wrong type for a right one."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False
    )
