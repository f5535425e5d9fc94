"""One algorithm section for every row of the table of objectives, as plain data."""

SECTIONS = {
    "ppo_clip": {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0},
    "cispo": {"ratio_max": 4.0, "ratio_min": 0.0},
    "gspo": {"clip_low": 0.1, "clip_high": 0.15, "token_form": False},
    "bapo": {
        "target_share": 0.5,
        "low_start": 0.6,
        "low_end": 0.9,
        "low_step": 0.02,
        "high_start": 1.2,
        "high_end": 3.0,
        "high_step": 0.05,
        "order": "low_first",
        "metric": "share",
        "contribution": "active",
        "end": "stop",
        "dual_clip": None,
    },
    "bapo_balanced": {"ratio_min": 0.8, "ratio_max": 1.2, "target": 0.45, "beta": 5.0, "mode": "restore"},
    "reinforce": {},
    "gmpo": {"clip_low": 0.4, "clip_high": 0.4},
    "sapo": {"tau_pos": 1.0, "tau_neg": 1.05},
    "clip_cov": {"clip_low": 0.2, "clip_high": 0.2, "frac": 0.1, "cov_low": 0.01, "cov_high": 5.0},
    "kl_cov": {"frac": 0.1, "coef": 1.0},
}
KL = {"coef": 0.05, "estimator": "k3", "into": "loss", "importance": True, "reference": None}
ENTROPY = {"coef": 0.01, "target": None, "delta": 0.005, "coef_max": 0.1}
ADAPTIVE = {"target_entropy": 1.75, "alpha": 0.2, "sign": "formula", "side": "high"}


def algorithm(name, **parts):
    """The section of loss ``name``, and other parts of an algorithm."""
    return {"loss": {"name": name, **SECTIONS[name]}, "anchor": "auto", **parts}
