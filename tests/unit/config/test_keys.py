import pytest

from headrace.config.keys import OTHER_NAMES, all_keys, hint, section_paths


def test_fewer_than_sixty_keys_besides_those_of_parts_and_each_is_documented():
    keys = all_keys()
    assert sum(not key.owner for key in keys.values()) < 60
    assert all(key.description for key in keys.values())


def test_allowed_says_type_and_bounds():
    allowed = {path: key.allowed for path, key in all_keys().items()}
    assert allowed["run.steps"] == "a whole number >= 1"
    assert allowed["optimizer.lr"] == "a number > 0"
    assert allowed["async.at_bound"] == "one of 'wait', 'drop'"
    assert allowed["optimizer.warmup"] == "a whole number >= 0 or a number >= 0 and < 1"
    assert allowed["algorithm.advantage.name"] == "'group_relative' or 'gae' or 'smoothed' or 'reinforce_pp'"
    assert allowed["algorithm.loss.name"].startswith("'ppo_clip' or 'cispo' or 'gspo'")
    assert allowed["task.chat"] == "true or false"


def test_defaults():
    keys = all_keys()
    assert keys["batch.group_size"].default == 8
    assert keys["algorithm.loss.clip_low"].default == 0.2
    assert keys["algorithm.loss.clip_low"].owner == "algorithm.loss 'ppo_clip' or 'gspo' or 'gmpo' or 'clip_cov'"
    assert keys["algorithm.kl.coef"].owner == "algorithm.kl"
    assert keys["algorithm.loss.name"].owner == ""


def test_names_of_other_libraries_point_at_keys():
    assert set(OTHER_NAMES.values()) <= all_keys().keys()
    assert "algorithm.loss" in section_paths()


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("lr", "optimizer.lr"),
        ("batch.lr", "optimizer.lr"),  # right name, wrong section
        ("optimizr.lr", "optimizer.lr"),
        ("optimizer.learning_rate", "optimizer.lr"),
        ("batch.groupsize", "batch.group_size"),
        ("loss.eps_hi", "algorithm.loss.clip_high"),
        ("algorithm.loss.clip_hi", "algorithm.loss.clip_high"),
        ("async.max_staleness", "async.max_lag"),
        ("asnyc.max_lag", "async.max_lag"),
        ("num_generations", "batch.group_size"),
    ],
)
def test_hint(path, meant):
    assert hint(path) == f" Did you mean '{meant}'?"


def test_no_hint_when_nothing_is_near():
    assert hint("foo.zzzzzz") == ""


def test_truncated_sampling_is_refused_with_the_reason():
    assert "Truncated sampling does not exist here" in hint("sampling.top_p")
