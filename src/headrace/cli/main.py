"""The command line. Parsing and errors only; what a command does is imported when it is asked for."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence

from headrace import __version__
from headrace.errors import ConfigError, HeadraceError

INTERRUPTED = 130

_OVERRIDES_HELP = "key.path=value: override a key of the recipe, such as optimizer.lr=1e-4"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 (the run failed), 2 (a user's mistake), 130 (Ctrl-C)."""
    options = parse(list(sys.argv[1:] if arguments is None else arguments))
    try:
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except HeadraceError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        print_error("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # `headrace explain x | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options of a command line. ``key.path=value`` texts may stand anywhere behind the command."""
    parser = make_parser()
    options, rest = parser.parse_known_args(arguments)
    strangers = [text for text in rest if text.startswith("-") or "=" not in text]
    if strangers:
        parser.error(f"unrecognized arguments: {' '.join(strangers)} (overrides are written key.path=value)")
    options.overrides = [*getattr(options, "overrides", []), *rest]
    return options


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="headrace", description="Asynchronous RL post-training of language models on verifiable rewards."
    )
    parser.add_argument("--version", action="version", version=f"headrace {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = _command(commands, "demo", _demo, "train a small bundled model in about a minute on two CPU cores")
    train = _command(commands, "train", _train, "train a recipe, or go on with an interrupted run")
    check = _command(commands, "check", _check, "look for mistakes in a recipe without running it")
    explain = _command(commands, "explain", _explain, "say in sentences what a recipe does")
    evaluate = _command(commands, "eval", _eval, "held-out pass rate of a run's newest checkpoint or of a model")
    sweep = _command(commands, "sweep", _sweep, "train a grid of values (key=a,b,c) over seeds, and compare")
    ablate = _command(commands, "ablate", _ablate, "train a recipe with one part left out at a time, and compare")
    _command(commands, "recipes", _recipes, "list the bundled recipes")
    fit = _command(commands, "fit", _fit, "fit a saturating curve to held-out pass rate against compute")
    forecast = _command(commands, "forecast", _forecast, "say what pass rate a run will have at a given compute")
    compare = _command(commands, "compare", _compare, "compare the curves of recipes: ceiling, efficiency, crossing")

    _verify_options(_command(commands, "verify", _verify, "score rows of a file with any verifier"))

    train.add_argument("recipe", nargs="?", help="a YAML file or the name of a bundled recipe; not with --resume")
    train.add_argument("--resume", metavar="RUN", help="go on with the run in this folder, by its own recipe")
    for command in (demo, train):
        command.add_argument("--runs", metavar="DIR", default="runs", help="folder of run folders (default: runs)")
    for command in (check, explain, sweep, ablate):
        command.add_argument("recipe", help="a YAML file, a run folder or the name of a bundled recipe")
    check.add_argument("--data", action="store_true", help="read all rows too: counts, prompt lengths, gold answers")
    evaluate.add_argument("target", metavar="RUN_OR_MODEL", help="a run folder, a model folder, a hub id, or 'bundled'")
    evaluate.add_argument(
        "--recipe", default="demo", help="whose task and sampling judge a model (default: demo); a run brings its own"
    )
    for command in (demo, train, check, explain, evaluate, ablate):
        command.add_argument("overrides", nargs="*", metavar="key.path=value", help=_OVERRIDES_HELP)
    _study_options(sweep, ablate)
    _curve_options(fit, forecast, compare)
    return parser


def _study_options(sweep: argparse.ArgumentParser, ablate: argparse.ArgumentParser) -> None:
    sweep.add_argument(
        "overrides",
        nargs="*",
        metavar="key=a,b,c",
        help="a key and its values, the entries of a YAML list; with one value, an override of every variant",
    )
    sweep.add_argument("--baseline", metavar="VARIANT", help="what the others are compared with (default: the first)")
    ablate.add_argument("--parts", metavar="A,B", help="parts to leave out or swap (default: all the recipe has)")
    for command in (sweep, ablate):
        command.add_argument("--seeds", default="0,1,2", metavar="A,B", help="seeds of each variant (default: 0,1,2)")
        command.add_argument("--out", metavar="DIR", help="folder of the study; runs finished in it are kept")
        command.add_argument("--dry-run", action="store_true", help="check and list the variants, run nothing")


def _verify_options(verify: argparse.ArgumentParser) -> None:
    verify.add_argument("rows", metavar="IN.jsonl", help="a row a line: id, gold, response; for code: id, code, tests")
    verify.add_argument(
        "--verifier",
        required=True,
        metavar="NAME",
        help="math, number, exact, code, or your function (module:function)",
    )
    verify.add_argument("--json", metavar="OUT.jsonl", help="write the verdicts there (default: standard output)")
    verify.add_argument("--keep-going", action="store_true", help="score the other rows when one is malformed")
    verify.add_argument("--workers", type=_positive, default=1, metavar="N", help="verifier processes (default: 1)")
    verify.add_argument(
        "--time-limit", type=float, metavar="S", help="seconds for one judgement (default: 10; at most 1 for text)"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {text}; allowed: 1 or more")
    return number


def _curve_options(
    fit: argparse.ArgumentParser, forecast: argparse.ArgumentParser, compare: argparse.ArgumentParser
) -> None:
    for command in (fit, forecast, compare):
        command.add_argument("targets", nargs="+", metavar="RUN|FILE", help="run folders, or files with curves")
        command.add_argument("--compute", metavar="NAME", help="compute column; of a run: device_s, flops, steps, ...")
        command.add_argument("--score", metavar="NAME", help="score column (default: the held-out pass rate)")
        command.add_argument("--from", dest="start", type=float, default=0.0, metavar="C", help="drop 0 < compute < C")
        command.add_argument("--until", type=float, default=math.inf, metavar="C", help="fit up to this compute only")
        command.add_argument("--method", choices=("least-squares", "grid"), default="least-squares")
        command.add_argument("--interval", choices=("profile", "bootstrap"), default="profile")
        command.add_argument(
            "--r0", type=float, metavar="RATE", help="hold the starting pass rate instead of fitting it"
        )
        command.add_argument("--grid-a", nargs=2, type=float, metavar=("LOW", "HIGH"), help="ceilings of the grid")
        command.add_argument("--grid-mid", nargs=2, type=float, metavar=("LOW", "HIGH"), help="C_mid of the grid")
        command.add_argument("--draws", type=int, default=1000, help="bootstrap draws (default: 1000)")
        command.add_argument("--level", type=float, default=0.9, help="level of the intervals (default: 0.9)")
        command.add_argument("--json", metavar="OUT", help="write the figures to this file")
    for command in (fit, compare):
        command.add_argument("--plot", action="append", metavar="OUT", help="draw to a .png or .html file")
    fit.add_argument("--backtest", action="store_true", help="test a run's earlier forecasts of its end on what came")
    for command in (forecast, compare):
        command.add_argument("--margin", type=float, default=0.02, help="what counts as different (default: 0.02)")
    where = forecast.add_mutually_exclusive_group(required=True)
    where.add_argument("--at", type=float, metavar="C", help="the compute to forecast")
    where.add_argument("--budget", type=float, metavar="C", help="total compute: is going on to there worth it?")
    forecast.add_argument("--target", type=float, metavar="RATE", help="the pass rate to reach: will it?")
    compare.add_argument("--at", type=float, metavar="C", help="equal compute (default: the largest all have)")


def print_error(message: str) -> None:
    """One paragraph on standard error."""
    label = "\033[1;31merror:\033[0m" if sys.stderr.isatty() else "error:"
    print(f"headrace: {label} {message}", file=sys.stderr)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=run)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from headrace.cli.train import run_demo

    return run_demo(options.overrides, runs=options.runs)


def _train(options: argparse.Namespace) -> int:
    recipe, overrides = options.recipe, options.overrides
    if options.resume is not None and recipe is not None and "=" in recipe:
        recipe, overrides = None, [recipe, *overrides]
    if options.resume is not None and recipe is not None:
        raise ConfigError(f"--resume {options.resume} brings its own recipe; leave '{recipe}' out.")
    if options.resume is None and recipe is None:
        raise ConfigError(
            "train needs a recipe (a YAML file or a bundled name; see 'headrace recipes') or --resume RUN."
        )
    from headrace.cli.train import run_train

    return run_train(recipe, overrides, runs=options.runs, resume=options.resume)


def _check(options: argparse.Namespace) -> int:
    from headrace.cli.check import run_check

    return run_check(options.recipe, options.overrides, data=options.data)


def _explain(options: argparse.Namespace) -> int:
    from headrace.cli.explain import run_explain

    return run_explain(options.recipe, options.overrides)


def _eval(options: argparse.Namespace) -> int:
    from headrace.cli.evaluate import run_eval

    return run_eval(options.target, options.overrides, recipe_name=options.recipe)


def _fit(options: argparse.Namespace) -> int:
    if options.backtest:
        from headrace.cli.backtest import run_backtest

        return run_backtest(options)
    from headrace.cli.fit import run_fit

    return run_fit(options)


def _forecast(options: argparse.Namespace) -> int:
    from headrace.cli.forecast import run_forecast

    return run_forecast(options)


def _compare(options: argparse.Namespace) -> int:
    from headrace.cli.compare import run_compare

    return run_compare(options)


def _sweep(options: argparse.Namespace) -> int:
    from headrace.cli.sweep import run_sweep

    return run_sweep(options)


def _ablate(options: argparse.Namespace) -> int:
    from headrace.cli.ablate import run_ablate

    return run_ablate(options)


def _verify(options: argparse.Namespace) -> int:
    from headrace.cli.verify import run_verify

    return run_verify(options)


def _recipes(options: argparse.Namespace) -> int:
    from headrace.cli.recipes import run_recipes

    return run_recipes()


if __name__ == "__main__":
    sys.exit(main())
