import json
import struct

import numpy as np
import pytest

from headrace.errors import DataError
from headrace.scaling.readers.event_file import read_event_files
from headrace.scaling.readers.files import read_points
from headrace.scaling.readers.run_log import points_from_evals

C, Y = [0, 10, 20], [0.1, 0.25, 0.375]


def assert_curve(points, unit, c=C, y=Y):
    assert points.compute.tolist() == c
    assert points.score == pytest.approx(y)
    assert points.unit == unit


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_csv(tmp_path):
    points = read_points(write(tmp_path / "a.csv", "compute,score,n\n0,0.1,50\n10,0.25,50\n\n20,0.375,40\n"))
    assert_curve(points, "compute")
    assert points.n.tolist() == [50, 50, 40]
    assert points.name == "a.csv"


def test_tsv_with_named_columns(tmp_path):
    path = write(tmp_path / "a.tsv", "hours\tacc\tother\n0\t0.1\tx\n10\t0.25\ty\n20\t0.375\tz\n")
    assert_curve(read_points(path, compute="hours", score="acc"), "hours")


def test_json_lines_with_nested_values_and_other_lines(tmp_path):
    rows = [{"step": c, "eval": {"accuracy": y}} for c, y in zip(C, Y)] + [{"step": 5, "loss": 1.0}]
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps(row) for row in rows))
    assert_curve(read_points(path), "step")


def test_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"flops": [0.0, 10, 20], "score": Y}), tmp_path / "a.parquet")
    assert_curve(read_points(tmp_path / "a.parquet"), "flops")
    with pytest.raises(DataError, match="not a Parquet file"):
        read_points(write(tmp_path / "b.parquet", "no"))


def test_wandb_chart_export(tmp_path):
    text = '"Step","run - eval/accuracy","run - eval/accuracy__MIN","run - eval/accuracy__MAX"\n'
    text += "".join(f'"{c}","{y}","{y}","{y}"\n' for c, y in zip(C, Y))
    assert_curve(read_points(write(tmp_path / "wandb.csv", text)), "Step")
    two = text.replace('__MAX"', '__MAX","other - eval/accuracy"', 1)
    with pytest.raises(DataError, match="several runs"):
        read_points(write(tmp_path / "two.csv", two))


def test_wandb_history(tmp_path):
    rows = [{"_step": c, "_runtime": 1.0, "eval/accuracy": y} for c, y in zip(C, Y)]
    assert_curve(read_points(write(tmp_path / "h.jsonl", "\n".join(map(json.dumps, rows)))), "_step")


def test_trainer_state(tmp_path):
    history = [{"loss": 0.3, "step": 5, "epoch": 0.1}]
    history += [{"eval_reward": y, "step": c, "epoch": 0.1, "num_tokens": 100.0 * c} for c, y in zip(C, Y)]
    write(tmp_path / "trainer_state.json", json.dumps({"log_history": history, "global_step": 20}))
    assert_curve(read_points(tmp_path, compute="step"), "step")
    assert_curve(read_points(tmp_path / "trainer_state.json"), "num_tokens", c=[0, 1000, 2000])


def test_tensorboard_files_written_by_tensorboard(tmp_path):
    from headrace.tracking.tensorboard import TensorBoardTracker

    tracker = TensorBoardTracker(tmp_path)
    for c, y in zip(C, Y):
        tracker.log(c, {"eval/mean_at_n": y, "loss": 1.0})
    tracker.close()
    (file,) = tmp_path.glob("*tfevents*")
    assert_curve(read_points(tmp_path), "step")
    assert_curve(read_points(file), "step")
    torn = write(tmp_path / "torn.tfevents", "")
    torn.write_bytes(file.read_bytes()[:-3])
    assert len(read_event_files(torn)) == 2


def test_tensorboard_tensors(tmp_path):
    """A scalar as TensorBoard 2 writes it: field 8 of a value, dtype 1 (float) with its bytes in field 4."""

    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    tensor = bytes([1 << 3, 1]) + field(4, struct.pack("<f", 0.5))
    value = field(1, b"eval/accuracy") + field(8, tensor)
    event = bytes([1 << 3 | 1]) + struct.pack("<d", 0.0) + bytes([2 << 3, 200, 1]) + field(5, field(1, value))
    path = tmp_path / "x.tfevents.1"
    path.write_bytes(struct.pack("<Q", len(event)) + b"crc." + event + b"crc.")
    assert read_event_files(path) == [{"step": 200, "eval/accuracy": 0.5}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "x,y\n1,2\n", "no column is known to be the score.*Columns: x, y"),
        ("a.csv", "compute,score\n1,0.5,3\n", "line 2 has 3 fields, the header 2"),
        ("a.csv", "compute,score\n1,high\n", "row 1: score is 'high', not a number"),
        ("a.csv", "compute,score\n1,nan\n", "score is not a finite number"),
        ("a.csv", ",score\n", "nothing in it"),
        ("a.jsonl", "{}\n{oops\n", "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", "line 1 is no JSON object"),
        ("a.json", "{oops", "is not JSON"),
        ("a.json", '{"a": 1}', "neither a list of rows nor"),
        ("a.txt", "", "unknown kind of file"),
        ("tfevents", "x" * 40, "nothing in it"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, text, said):
    with pytest.raises(DataError, match=said):
        read_points(write(tmp_path / name, text))


def test_no_file_and_no_column(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_points(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"holds no evals\.jsonl"):
        read_points(tmp_path)
    with pytest.raises(DataError, match="Did you mean 'score'"):
        read_points(write(tmp_path / "a.csv", "compute,score\n1,0.5\n"), score="scor")


def evaluation(version, rate, **changes):
    compute = {"device_s": 2.0 * version, "flops": 0.0, "tokens_trained": 100 * version, "steps": version}
    line = {"version": version, "step": version, "mean_at_n": rate, "num_completions": 100, "compute": compute}
    return line | {"pass_at_k": {"1": rate, "2": rate + 0.09}} | changes


def test_a_run():
    rows = [evaluation(v, y) for v, y in zip(C, Y)]
    points = points_from_evals(rows, name="run")
    assert_curve(points, "device_s", c=[0, 20, 40])
    assert points.error == pytest.approx(np.full(3, 0.03))
    assert_curve(points_from_evals(rows, name="run", compute="tokens_trained"), "tokens_trained", c=[0, 1000, 2000])


def test_a_step_evaluated_again_counts_once():
    rows = [evaluation(0, 0.2), evaluation(0, 0.1), evaluation(10, 0.25), evaluation(20, 0.375)]
    assert_curve(points_from_evals(rows, name="run", compute="steps"), "steps")


def test_a_run_that_cannot_be_used():
    with pytest.raises(DataError, match="no compute 'hours'"):
        points_from_evals([evaluation(0, 0.1)], name="run", compute="hours")
    with pytest.raises(DataError, match="no evaluation has a 'mean_at_n'"):
        points_from_evals([], name="run")
    with pytest.raises(DataError, match="does not say its compute"):
        points_from_evals([evaluation(3, 0.1, compute={})], name="run")
