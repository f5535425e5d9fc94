import json

import pytest

from headrace.config.load import load_recipe
from headrace.errors import ConfigError, DataError, RoleDied
from headrace.studies.plan import plan
from headrace.studies.run import run_study
from headrace.studies.store import STUDY_FILE, open_study
from headrace.studies.variant import Variant

VARIANTS = [Variant(f"ratio_max={v}", {"algorithm.loss.ratio_max": v}) for v in (4, 8)]


def jobs(seeds=(0, 1), variants=VARIANTS, fixed=("run.steps=15",)):
    return plan("demo", list(fixed), variants, seeds)


class Runs:
    """A runner that makes a folder and answers what it is told: an exit code, or an error to raise."""

    def __init__(self, **answers):
        self.answers = answers
        self.tasks = []

    def __call__(self, task):
        name = task.recipe_file.stem
        self.tasks.append(task)
        if task.resume is None:
            (task.runs / f"20260101-00000{len(self.tasks)}-{name}").mkdir()
        answer = self.answers.get(name.replace("-", "_"), 0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def names(self):
        return [task.recipe_file.stem for task in self.tasks]


def statuses(folder):
    return {row["name"]: row["status"] for row in json.loads((folder / STUDY_FILE).read_text())["runs"]}


def test_each_run_gets_its_recipe_and_is_recorded(tmp_path):
    runs = Runs()
    end = run_study(jobs(), tmp_path, runs, about={"recipe": "demo"})
    assert runs.names == ["ratio_max-4-seed0", "ratio_max-8-seed0", "ratio_max-4-seed1", "ratio_max-8-seed1"]
    recipe = load_recipe(runs.tasks[3].recipe_file)
    assert (recipe.run.seed, recipe.run.steps, recipe.algorithm.loss.ratio_max) == (1, 15, 8)
    assert end.exit_code == 0
    assert [record.folder for record in end.records][1] == "20260101-000002-ratio_max-8-seed0"
    assert json.loads((tmp_path / STUDY_FILE).read_text())["recipe"] == "demo"
    assert set(statuses(tmp_path).values()) == {"finished"}


def test_what_is_finished_is_not_run_again_and_new_seeds_are_added(tmp_path):
    run_study(jobs(seeds=(0,)), tmp_path, Runs())
    runs = Runs()
    seen = []
    end = run_study(jobs(), tmp_path, runs, observer=lambda n, job, record: seen.append((n, job.seed, record.status)))
    assert runs.names == ["ratio_max-4-seed1", "ratio_max-8-seed1"]
    assert len(end.records) == 4
    assert seen == [
        (0, 0, "finished"), (1, 0, "finished"),
        (2, 1, "running"), (2, 1, "finished"), (3, 1, "running"), (3, 1, "finished"),
    ]  # fmt: skip


def test_a_run_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    error = RoleDied("trainer was ended by SIGKILL after 3.0 s", role="trainer")
    bug = ZeroDivisionError("division by zero")
    runs = Runs(ratio_max_4_seed0=error, ratio_max_8_seed0=bug, ratio_max_4_seed1=1)
    end = run_study(jobs(), tmp_path, runs)
    assert len(runs.names) == 4
    assert end.exit_code == 1
    assert [record.status for record in end.records] == ["failed", "failed", "failed", "finished"]
    assert [record.error for record in end.records] == [
        "trainer was ended by SIGKILL after 3.0 s",
        "ZeroDivisionError: division by zero",
        "the run ended with exit code 1; see logs/ratio_max-4-seed1.log",
        None,
    ]
    again = Runs()
    assert run_study(jobs(), tmp_path, again).exit_code == 0
    assert again.names == ["ratio_max-4-seed0", "ratio_max-8-seed0", "ratio_max-4-seed1"]


def test_a_stopped_run_ends_the_study_and_goes_on_in_its_own_folder(tmp_path):
    runs = Runs(ratio_max_8_seed0=130)
    end = run_study(jobs(), tmp_path, runs)
    assert end.exit_code == 130
    assert [record.status for record in end.records] == ["finished", "interrupted", "waiting", "waiting"]
    again = Runs()
    assert run_study(jobs(), tmp_path, again).exit_code == 0
    assert again.names[0] == "ratio_max-8-seed0"
    assert again.tasks[0].resume == tmp_path / "runs" / "20260101-000002-ratio_max-8-seed0"
    assert again.tasks[1].resume is None


def test_ctrl_c_between_processes_passes_through_and_is_recorded(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_study(jobs(), tmp_path, Runs(ratio_max_4_seed0=KeyboardInterrupt()))
    assert statuses(tmp_path)["ratio_max-4-seed0"] == "interrupted"


def test_what_was_running_when_the_study_was_killed_goes_on(tmp_path):
    run_study(jobs(), tmp_path, Runs(ratio_max_4_seed0=130))
    content = json.loads((tmp_path / STUDY_FILE).read_text())
    content["runs"][0] |= {"status": "running", "folder": None}
    (tmp_path / STUDY_FILE).write_text(json.dumps(content))
    again = Runs()
    run_study(jobs(), tmp_path, again)
    assert again.tasks[0].resume.name == "20260101-000001-ratio_max-4-seed0"


def test_a_folder_of_other_recipes_is_refused_before_anything_runs(tmp_path):
    run_study(jobs(), tmp_path, Runs())
    runs = Runs()
    with pytest.raises(ConfigError, match=r"run\.steps is 15 there and 30 here"):
        run_study(jobs(seeds=(0, 1, 2), fixed=("run.steps=30",)), tmp_path, runs)
    assert runs.names == []
    assert len(statuses(tmp_path)) == 4


def test_names_that_begin_alike_are_not_taken_for_each_other(tmp_path):
    with open_study(tmp_path, {}) as store:
        for name in (
            "20260101-000001-a-seed1",
            "20260101-000001-a-seed1-2",
            "20260101-000009-a-seed12",
            "20260101-000009-b-a-seed1",
        ):
            (tmp_path / "runs" / name).mkdir()
        assert store.run_folder("a-seed1").name == "20260101-000001-a-seed1-2"
        assert store.run_folder("seed1") is None


def test_two_studies_in_one_folder_at_a_time_are_refused(tmp_path):
    def nested(task):
        run_study(jobs(), tmp_path, Runs())
        return 0

    end = run_study(jobs(seeds=(0,)), tmp_path, nested)
    assert {record.error for record in end.records} == {
        f"another process runs a study in {tmp_path}; wait for it, or choose another --out DIR"
    }


def test_a_record_that_is_not_one_is_named(tmp_path):
    (tmp_path / STUDY_FILE).write_text("{")
    with pytest.raises(DataError, match=r"sweep\.json is not the record of a study"):
        run_study(jobs(), tmp_path, Runs())
