"""What every section of a recipe is built from: strictness, and the number ranges that recur."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """Strict base: no unknown keys, no silent conversions (an int is accepted where a float is meant)."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, validate_default=True, allow_inf_nan=False, populate_by_name=True
    )


PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
OpenFraction = Annotated[float, Field(gt=0, lt=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Device = Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]+)?)$")]
