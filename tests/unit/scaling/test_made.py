import json

import pytest

from headrace.errors import DataError
from headrace.scaling.made import MadeForecast
from headrace.scaling.run_end import forecast_end
from tests.unit.scaling.runs import curve_rows


@pytest.mark.parametrize("last_step", [4, 12, 40])
def test_comes_back_from_json_as_it_was(last_step):
    made = forecast_end(curve_rows(last_step), 100)
    row = json.loads(json.dumps({"step": last_step, "attempt": 1, **made.to_json()}))
    assert MadeForecast.from_json(row) == made


def test_a_row_that_is_no_forecast():
    with pytest.raises(DataError, match="lacks compute, unit"):
        MadeForecast.from_json({"version": 1})
