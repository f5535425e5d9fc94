"""Make the bundled base model: corpus, character tokenizer, pre-training, model card. ``make base-model`` runs this.

The corpus is a mixture, as real corpora are. Each document is a problem and one of two ways to go on:

    347+85=7+5=12 4+8+1=13 3+1=4#432     worked: column by column from the right, carries as "+1", then the answer
    347+85=#481                          hasty: the answer at once, mostly a wrong guess

A model trained on it imitates the mixture: it can work a problem out, but usually does not bother. Reinforcement
learning on right answers then has a behaviour to find, decided by the first token of a completion.

Everything is seeded and runs on one thread: the same machine and torch version give the same files.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from headrace.tasks.arithmetic import ANSWER_MARKER, ArithmeticSource, Problem, extract_answer, make_problem

OUT = Path(__file__).resolve().parents[1] / "src" / "headrace" / "assets" / "base-arithmetic"

PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"
CHARACTERS = "0123456789+-*/=#., ()<>?!:;'" + "abcdefghijklmnopqrstuvwxyz" + "\n"
"""All characters the tokenizer knows (the model has seen only those of the corpus)."""

ROW_WIDTH = 128  # tokens in a row of packed documents
NUM_ROWS = 24  # rows in a training batch: about 3,000 tokens, 130 documents
WARMUP_STEPS = 50
DEFAULTS = {"seed": 0, "num_steps": 2200, "worked_frac": 0.40, "hasty_right_frac": 0.15, "num_problems": 2000}
PROBED_TOKENS = 64  # longest completion sampled when the pass rates are measured


@dataclass(frozen=True, slots=True)
class Mixture:
    """What the corpus is made of."""

    worked_frac: float  # share of documents that are worked solutions
    hasty_right_frac: float  # share of the hasty documents whose answer is right


# --- corpus ---------------------------------------------------------------------------------------------------------


def worked_solution(problem: Problem) -> str:
    """The careful way: one step a column from the right, then the answer behind its marker.

    A carry is a trailing ``+1``; a borrow writes the upper digit as ``1d`` and takes ``-1`` from the next column.

        347+85: 7+5=12 4+8+1=13 3+1=4#432        432-85: 12-5=7 13-8-1=4 4-1=3#347
    """
    upper, lower = str(problem.left)[::-1], str(problem.right)[::-1]
    steps, carry = [], 0
    for column in range(max(len(upper), len(lower))):
        digits = [int(number[column]) for number in (upper, lower) if column < len(number)]
        terms = digits + [1] * carry
        if problem.operator == "+":
            result = sum(terms)
            carry = result // 10
        else:
            carry = int(terms[0] < sum(terms[1:]))
            terms[0] += 10 * carry
            result = terms[0] - sum(terms[1:])
        steps.append(f"{problem.operator.join(map(str, terms))}={result}")
    return " ".join(steps) + ANSWER_MARKER + problem.answer


def hasty_answer(problem: Problem, rng: random.Random, *, right: bool) -> str:
    """The answer at once: the right one, or a wrong guess with the right first digit and length."""
    answer = problem.answer
    guess = answer
    while not right and guess == answer:
        kept = answer[: len(answer) > 1]
        guess = kept + "".join(rng.choice("0123456789") for _ in answer[len(kept) :])
    return ANSWER_MARKER + guess


def corpus(mixture: Mixture, seed: int) -> Iterator[tuple[str, str]]:
    """(prompt, completion) of problems of the train split, without end."""
    rng = random.Random(seed)
    index = 0
    while True:
        problem = make_problem(index, split="train", seed=seed)
        if rng.random() < mixture.worked_frac:
            yield problem.prompt, worked_solution(problem)
        else:
            yield problem.prompt, hasty_answer(problem, rng, right=rng.random() < mixture.hasty_right_frac)
        index += 1


# --- tokenizer ------------------------------------------------------------------------------------------------------


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; decoding joins them with nothing between. No BOS; unknown characters are ``<unk>``."""
    specials = [PAD, EOS, UNK]
    vocab = {token: i for i, token in enumerate([*specials, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )


# --- training -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents packed into rows; each attends to itself alone and its positions start at 0."""

    token_ids: torch.Tensor  # int64 [R, W]
    positions: torch.Tensor  # int64 [R, W]
    mask: torch.Tensor  # bool [R, 1, W, W], True where a token may look
    learnt: torch.Tensor  # bool [R, W], completion tokens and EOS: prompts are random and cannot be predicted


def batches(mixture: Mixture, tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[Batch]:
    """Batches of ``NUM_ROWS`` rows; a document goes into the first row with room, until eight found none."""
    documents = corpus(mixture, seed)
    shape = (NUM_ROWS, ROW_WIDTH)
    vocab, eos = tokenizer.get_vocab(), tokenizer.eos_token_id
    while True:
        token_ids, positions, segment = (np.zeros(shape, np.int64) for _ in range(3))
        learnt = np.zeros(shape, bool)
        used = [0] * NUM_ROWS
        num_documents = num_refused = 0
        while num_refused < 8:
            prompt, completion = next(documents)
            ids = [vocab[c] for c in prompt + completion] + [eos]
            row = next((r for r in range(NUM_ROWS) if used[r] + len(ids) <= ROW_WIDTH), None)
            if row is None:
                num_refused += 1
                continue
            num_documents += 1
            start, end = used[row], used[row] + len(ids)
            token_ids[row, start:end] = ids
            positions[row, start:end] = range(len(ids))
            segment[row, start:end] = num_documents
            learnt[row, start + len(prompt) : end] = True
            used[row] = end
        seen = torch.from_numpy(segment)
        mask = (seen[:, :, None] == seen[:, None, :]).tril()
        yield Batch(torch.from_numpy(token_ids), torch.from_numpy(positions), mask[:, None], torch.from_numpy(learnt))


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """The untrained model: few, wide layers, because decoding on a CPU costs per layer more than per weight."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def train(model: Qwen3ForCausalLM, stream: Iterator[Batch], num_steps: int) -> int:
    """Next-token training: Muon on the layers' matrices, AdamW on the rest. Returns the tokens seen.

    Both rates warm up, then fall along a cosine to 2 %.
    """
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers = [
        torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    started = time.perf_counter()
    num_tokens = 0
    for step in range(num_steps):
        scale = min(1.0, (step + 1) / WARMUP_STEPS) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / num_steps)))
        for optimizer, peak in zip(optimizers, peaks, strict=True):
            optimizer.param_groups[0]["lr"] = peak * scale
        batch = next(stream)
        hidden = model.model(
            input_ids=batch.token_ids, position_ids=batch.positions, attention_mask=batch.mask, use_cache=False
        ).last_hidden_state
        predicted = batch.learnt[:, 1:]
        loss = F.cross_entropy(model.lm_head(hidden[:, :-1][predicted]), batch.token_ids[:, 1:][predicted])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        num_tokens += batch.token_ids.numel()
        if step % 100 == 0 or step == num_steps - 1:
            print(f"step {step:5d}  loss {loss.item():.4f}  {time.perf_counter() - started:6.1f} s", flush=True)
    return num_tokens


# --- what the model can do ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Pass rates and lengths over held-out problems. Lengths are in tokens, EOS included."""

    num_problems: int
    pass_rate: float
    worked_frac: float  # completions that start on a worked solution
    worked_pass_rate: float  # of those
    hasty_pass_rate: float  # of the others
    length_mean: float
    length_p50: float
    length_p99: float


@torch.no_grad()
def measure(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, num_problems: int, *, greedy: bool, seed: int
) -> Measured:
    """Sample one completion for each of the first ``num_problems`` held-out problems, greedily or at temperature 1."""
    torch.manual_seed(seed)
    source = ArithmeticSource("held_out", seed)
    passed, worked, lengths = [], [], []
    for start in range(0, num_problems, 256):
        rows = [source[i] for i in range(start, min(start + 256, num_problems))]
        inputs = tokenizer([str(row["prompt"]) for row in rows], return_tensors="pt", padding=True)
        output = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            do_sample=not greedy,
            max_new_tokens=PROBED_TOKENS,
        )[:, inputs["input_ids"].shape[1] :]
        for row, ids in zip(rows, output.tolist(), strict=True):
            length = ids.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in ids else len(ids)
            text = tokenizer.decode(ids[:length], skip_special_tokens=True)
            passed.append(extract_answer(text) == row["answer"] and ids[length - 1] == tokenizer.eos_token_id)
            worked.append(not text.startswith(ANSWER_MARKER))
            lengths.append(length)
    is_worked, is_right = np.array(worked), np.array(passed)
    return Measured(
        num_problems=num_problems,
        pass_rate=float(is_right.mean()),
        worked_frac=float(is_worked.mean()),
        worked_pass_rate=float(is_right[is_worked].mean()) if is_worked.any() else math.nan,
        hasty_pass_rate=float(is_right[~is_worked].mean()) if not is_worked.all() else math.nan,
        length_mean=float(np.mean(lengths)),
        length_p50=float(np.percentile(lengths, 50)),
        length_p99=float(np.percentile(lengths, 99)),
    )


def model_card(
    args: argparse.Namespace,
    num_parameters: int,
    num_tokens: int,
    train_s: float,
    measured: dict[str, Measured],
) -> str:
    """The README of the model folder."""
    example = Problem(347, "+", 85)
    rows = "\n".join(
        f"| {name} | {_rate(m.pass_rate)} | {_rate(m.worked_frac)} | {_rate(m.worked_pass_rate)} "
        f"| {_rate(m.hasty_pass_rate)} | {m.length_mean:.1f} | {m.length_p50:.0f} | {m.length_p99:.0f} |"
        for name, m in measured.items()
    )
    num_problems = next(iter(measured.values())).num_problems
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# base-arithmetic

A {num_parameters:,}-parameter Qwen3-architecture model with a character tokenizer, pre-trained from scratch on sums and
differences. It is the base model of Headrace's demo: small enough to train with reinforcement learning on two CPU
cores in about a minute, and of no other use.

## Data

Synthetic, from `headrace.tasks.arithmetic` (train split only; the held-out split is cut by a hash of the problem):
`a+b=` and `a-b=` with a longer number of 2 to 5 digits. Each document is a problem, a completion and an end token:

| share | kind | example |
|---|---|---|
| {args.worked_frac:.0%} | worked, always right | `{example.prompt}{worked_solution(example)}` |
| {(1 - args.worked_frac) * args.hasty_right_frac:.1%} | hasty, right | `{example.prompt}#{example.answer}` |
| {(1 - args.worked_frac) * (1 - args.hasty_right_frac):.1%} | hasty, wrong | `{example.prompt}#481` |

A wrong answer has the right length and first digit; the rest is random. Only completion tokens and the end token are
learnt. The answer of a completion is what follows its last `#`.

## Training

`{command(args)}`

Seed {args.seed}, {args.num_steps:,} steps, {num_tokens / 1e6:.1f}M tokens, {train_s:.0f} s of CPU time on one thread
(torch {torch.__version__}, transformers {transformers.__version__}).
Muon at 2e-2 on the layers' matrices, AdamW at 3e-3 on the rest, cosine decay.

## Measured

On {num_problems:,} held-out problems, one completion each, at most {PROBED_TOKENS} tokens (lengths are in
tokens, end token included). The hasty way stays mostly wrong even where the corpus was right: the model is too small to
add five digits at once. Greedy decoding always takes it, as the more frequent first token.

| sampling | pass rate | worked solutions | right when worked | right when hasty | mean length | p50 | p99 |
|---|---|---|---|---|---|---|---|
{rows}

## Licence

Apache-2.0.
"""


def _rate(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make the bundled base model.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write")
    parser.add_argument(
        "--seed", type=int, default=DEFAULTS["seed"], help="of the weights, the corpus and the measurement"
    )
    parser.add_argument("--num-steps", type=int, default=DEFAULTS["num_steps"], help="training steps")
    parser.add_argument("--worked-frac", type=float, default=DEFAULTS["worked_frac"], help="share of worked solutions")
    parser.add_argument(
        "--hasty-right-frac", type=float, default=DEFAULTS["hasty_right_frac"], help="right ones among the hasty"
    )
    parser.add_argument(
        "--num-problems", type=int, default=DEFAULTS["num_problems"], help="held-out problems measured on"
    )
    return parser.parse_args()


def command(args: argparse.Namespace) -> str:
    """The command line that makes these files again, wherever they were written."""
    told = {name: value for name, value in vars(args).items() if name != "out" and value != DEFAULTS[name]}
    options = [f" --{name.replace('_', '-')} {value}" for name, value in told.items()]
    return "python scripts/make_base_model.py" + "".join(options)


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, args.seed)
    num_parameters = sum(p.numel() for p in model.parameters())
    print(f"{num_parameters:,} parameters, vocabulary of {len(tokenizer)}", flush=True)

    started = time.process_time()
    mixture = Mixture(args.worked_frac, args.hasty_right_frac)
    num_tokens = train(model, batches(mixture, tokenizer, args.seed), args.num_steps)
    train_s = time.process_time() - started

    model.eval()
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(args.out)
    model.save_pretrained(args.out)
    measured = {
        "greedy": measure(model, tokenizer, args.num_problems, greedy=True, seed=args.seed),
        "temperature 1": measure(model, tokenizer, args.num_problems, greedy=False, seed=args.seed),
    }
    card = model_card(args, num_parameters, num_tokens, train_s, measured)
    (args.out / "README.md").write_text(card, encoding="utf-8")
    print(f"trained in {train_s:.0f} s of CPU time; wrote {args.out}")
    for name, figures in measured.items():
        print(f"{name}: {figures}")


if __name__ == "__main__":
    main()
