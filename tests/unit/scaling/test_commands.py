"""The commands from outside: a file in, figures and a verdict out."""

import json

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.tracking.eval_log import Compute, EvalLog
from tests.unit.scaling.curves import N, exact, noisy

LONG = np.concatenate([[0.0], np.linspace(1500, 16000, 100)])


def write(path, score, compute=LONG, header="compute,score,n"):
    lines = [f"{c!r},{y!r},{N}" for c, y in zip(compute.tolist(), score.tolist())]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return str(path)


def test_fit_writes_what_it_says(tmp_path, capsys):
    out = tmp_path / "fit.json"
    assert main(["fit", write(tmp_path / "a.csv", noisy(0, LONG)), "--until", "8000", "--json", str(out)]) == 0
    said = json.loads(out.read_text())
    assert said["A"] == pytest.approx(0.61, abs=0.02)
    assert said["interval_A"][0] < said["A"] < said["interval_A"][1]
    assert (said["identified"], said["reasons"], said["unit"]) == (True, [], "compute")
    assert said["largest_compute"] <= 8000
    assert said["power_law"]["A"] > 0.65
    assert "identified: yes" in capsys.readouterr().out


def test_a_refused_fit_is_an_answer(tmp_path, capsys):
    out = tmp_path / "fit.json"
    assert main(["fit", write(tmp_path / "a.csv", noisy(0, LONG)), "--until", "2600", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["identified"] is False
    assert "refused: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c, y: (c[:2], y[:2]), "2 points are too few"),
        (lambda c, y: (c, np.where(c == c[5], np.nan, y)), "not a finite number"),
        (lambda c, y: (np.where(c == c[5], -1.0, c), y), "compute is negative"),
        (lambda c, y: (np.where(c == c[1], 0.0, c), y), "different scores"),
        (lambda c, y: (c, 100 * y), "outside 0..1"),
    ],
)
def test_bad_files_end_with_2_and_write_nothing(tmp_path, capsys, change, said):
    out = tmp_path / "fit.json"
    compute, score = change(LONG, exact(LONG))
    assert main(["fit", write(tmp_path / "a.csv", score, compute), "--json", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("score", [np.full(101, 0.4), np.linspace(0.6, 0.2, 101)])
def test_without_a_rise_no_number_is_written(tmp_path, score):
    out = tmp_path / "fit.json"
    assert main(["fit", write(tmp_path / "a.csv", score), "--json", str(out)]) == 0
    said = json.loads(out.read_text())
    assert [said[name] for name in ("A", "B", "C_mid", "R0")] == [None] * 4
    assert said["interval_A"] == [None, None]
    assert not said["identified"]


def test_forecast(tmp_path, capsys):
    path, out = write(tmp_path / "a.csv", noisy(0, LONG)), tmp_path / "f.json"
    assert main(["forecast", path, "--until", "8000", "--at", "16000", "--target", "0.59", "--json", str(out)]) == 0
    said = json.loads(out.read_text())
    assert said["forecast"]["value"] == pytest.approx(0.59977, abs=0.02)
    assert said["verdict"]["decision"] == "continue"
    assert main(["forecast", path, "--budget", "50000"]) == 0
    assert "stop: " in capsys.readouterr().out
    assert main(["forecast", path, "--until", "2600", "--at", "16000", "--json", str(out)]) == 1
    assert json.loads(out.read_text())["forecast"]["value"] is None


def test_compare_recipes_of_several_seeds(tmp_path, capsys):
    good = ",".join(write(tmp_path / f"g{i}.csv", noisy(i, LONG)) for i in range(3))
    poor = write(tmp_path / "p.csv", noisy(9, LONG, A=0.55))
    out, picture = tmp_path / "c.json", tmp_path / "c.html"
    options = ["--until", "8000", "--at", "16000", "--json", str(out), "--plot", str(picture)]
    assert main(["compare", good, poor, *options]) == 0
    (found,) = json.loads(out.read_text())["comparisons"]
    assert (found["first"], found["A_verdict"]) == ("g0.csv (x3)", "g0.csv (x3)")
    assert found["probability_first_better"] > 0.99
    page = picture.read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "https://matplotlib.org", ""
    ).replace("http://creativecommons.org", "")
    assert main(["compare", poor]) == 2


def test_units_that_differ(tmp_path, capsys):
    first = write(tmp_path / "a.csv", noisy(0, LONG), header="tokens,score,n")
    second = write(tmp_path / "b.csv", noisy(1, LONG), header="steps,score,n")
    for command in (["fit", first, second], ["compare", first, second]):
        assert main(command) == 2
        assert "different units" in capsys.readouterr().err


def test_a_run_folder_and_its_plots(tmp_path, capsys):
    run = tmp_path / "run"
    log = EvalLog(run)
    for step, rate in enumerate(exact(np.linspace(0, 16000, 30))):
        stats = {"mean_at_n": rate, "num_completions": 16000, "pass_at_k": {"1": rate, "2": rate + 0.15}}
        compute = Compute(device_s=3.0 * step, tokens_trained=round(step * 16000 / 29), steps=step)
        log.log(step, stats, temperature=1.0, compute=compute)
    log.close()
    png, out = tmp_path / "a.png", tmp_path / "a.json"
    options = ["--compute", "tokens_trained", "--until", "9000", "--plot", str(png), "--json", str(out)]
    assert main(["fit", str(run), *options]) == 0
    said = json.loads(out.read_text())
    assert (said["unit"], said["runs"]) == ("tokens_trained", ["run"])
    assert said["C_mid"] == pytest.approx(2542, rel=0.01)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert main(["fit", str(run), "--plot", str(tmp_path / "a.pdf")]) == 2
    assert main(["fit", str(run), "--grid-a", "0.4", "0.8"]) == 2
