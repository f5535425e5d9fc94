"""The metric names of a run: ``area/name``, fractions ``_frac``, durations ``_s``, counts ``num_``.

Every producer uses these names and every reader (live view, health rules, curve, alias map) looks them up; a figure a
run does not have is simply absent. Further names are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping

METRICS: Mapping[str, str] = {
    # reward: of the verdicts of the batch trained in the step, unjudged rollouts left out
    "reward/mean": "mean reward of the step's rollouts",
    "reward/std": "standard deviation of the step's rewards",
    "reward/shaped_mean": "mean of the rewards with their length penalty, with algorithm.overlong",
    "reward/pass_rate": "share of the step's judged rollouts that passed",
    # rollout: the batch the step consumed
    "rollout/length_mean": "mean completion length, tokens",
    "rollout/length_p50": "median completion length, tokens",
    "rollout/length_p99": "99th percentile of completion lengths, tokens",
    "rollout/length_max": "longest completion, tokens",
    "rollout/truncated_frac": "share of completions that ran into the token limit",
    "rollout/interrupted_frac": "share of completions whose thinking was interrupted and that ended their answer",
    "rollout/zero_variance_frac": "share of groups whose rewards are all equal",
    "rollout/all_right_frac": "share of groups in which every completion passed",
    "rollout/all_wrong_frac": "share of groups in which no completion passed",
    "rollout/effective_group_frac": "share of the step's groups that kept a signal",
    "rollout/effective_frac": "share of the step's rollouts with an advantage other than 0",
    "rollout/pass_rate_none_frac": "share of prompts no completion of which passed",
    "rollout/pass_rate_q1_frac": "share of prompts with a pass rate in (0, .25]",
    "rollout/pass_rate_q2_frac": "share of prompts with a pass rate in (.25, .5]",
    "rollout/pass_rate_q3_frac": "share of prompts with a pass rate in (.5, .75]",
    "rollout/pass_rate_q4_frac": "share of prompts with a pass rate in (.75, 1)",
    "rollout/pass_rate_all_frac": "share of prompts all completions of which passed",
    "rollout/lag_mean": "mean lag of the trained rollouts, steps",
    "rollout/lag_max": "largest lag of a trained token, steps",
    "rollout/mixed_version_frac": "share of rollouts sampled by more than one version",
    "rollout/reuse_frac": "share of the step's groups that had trained before (async.max_uses)",
    "rollout/utilisation": "tokens trained over tokens sampled for training so far; reuse counts again",
    "rollout/num_dropped": "groups dropped at the lag bound since the last step",
    # sampling
    "sampling/temperature": "mean temperature the step's completions were sampled at",
    # curation: prompts by state, with algorithm.pass_rate
    "curation/num_active": "prompts in the set that is trained on",
    "curation/num_retired": "prompts that retired because they are solved nearly always",
    "curation/num_reserve": "reserve prompts that still wait for a place",
    "curation/num_vacant": "places of retired prompts that no reserve prompt was left to take",
    # loss: means over the trainable tokens of the step
    "loss/value": "the objective that was minimised, mean over updates",
    "loss/entropy": "entropy of the policy at the sampling temperature, nats",
    "loss/clip_frac_low": "share of tokens whose gradient the lower clip removed",
    "loss/clip_frac_high": "share of tokens whose gradient the upper clip removed",
    "loss/dual_clip_frac": "share of tokens bounded by the dual clip",
    "loss/ratio_capped_frac": "share of tokens whose ratio was capped from above (CISPO)",
    "loss/ratio_raised_frac": "share of tokens whose ratio was capped from below (CISPO)",
    "loss/ratio_mean": "mean importance ratio to the anchor",
    "loss/ratio_max": "largest importance ratio",
    "loss/ess_frac": "effective sample size of the ratios to the behaviour policy, as a share of the tokens",
    "loss/advantage_abs_mean": "mean absolute advantage",
    "loss/advantage_outlier_frac": "share of tokens with an absolute advantage above 3",
    "loss/kl": "estimate of the divergence from the reference model, with algorithm.kl",
    "loss/mismatch_kl": "engine minus trainer log-probability of tokens scored on the weights that sampled them, mean",
    "loss/mismatch_abs_max": "largest absolute such difference",
    # optim: of the optimiser
    "optim/lr": "learning rate of the step's last update",
    "optim/grad_norm": "mean gradient norm before clipping",
    "optim/update_norm": "mean norm of the change of the weights",
    # value: of the value model, with algorithm.value
    "value/loss": "the value loss, mean over its updates",
    "value/mean": "mean value of the trained tokens' states",
    "value/explained_variance": "1 - Var(R - V) / Var(R) of the values before the step, R the returns",
    "value/clip_frac": "share of tokens whose value the clip held",
    "value/grad_norm": "mean gradient norm before clipping",
    "value/lr": "learning rate of its last update",
    # where time goes
    "trainer/idle_frac": "share of time the trainer waited since the first admission",
    "generator/idle_frac": "share of time the generators had nothing to decode since the first admission",
    "trainer/tokens_per_s": "tokens a second through the trainer's model, prompts included (shared ones once a row)",
    "generator/tokens_per_s": "tokens sampled for training a second, all generators",
    "trainer/step_s": "duration of the step in the trainer",
    "trainer/num_updates": "optimiser updates that were applied",
    "trainer/num_skipped_updates": "updates skipped because nothing was left to train or a gradient was not finite",
    "weights/publish_s": "time the trainer took to publish the new weights",
    "controller/cpu_frac": "the controller's CPU time since the last step, as a share of one core",
    "verifier/error_frac": "share of verifications since the last step that could not be judged",
    # tracking: what found the disk full, absent while everything is written
    "tracking/num_unwritten_metrics": "steps whose line in metrics.jsonl waits for space",
    "tracking/num_unwritten_evals": "evaluations whose line in evals.jsonl waits for space",
    "tracking/num_unwritten_rollouts": "completions that were given up",
}
