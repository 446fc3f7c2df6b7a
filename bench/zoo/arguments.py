"""Options that bench/zoo and bench/peers share."""

import argparse

from .suite import ENTRIES, SUITES


def batches(text):
    """`1,eval,8` as [1, "eval", 8]."""
    found = []
    for part in text.split(","):
        if part not in ("eval", "small") and not (part.isdecimal() and int(part) > 0):
            raise argparse.ArgumentTypeError(f"{part!r} is no batch: a number, eval, or small")
        found.append(int(part) if part.isdecimal() else part)
    return found


def model_names(text):
    names = text.split(",")
    for name in names:
        if name not in ENTRIES:
            raise argparse.ArgumentTypeError(
                f"no model {name!r}; there are {', '.join(sorted(ENTRIES))}"
            )
    return names


def add_models(parser):
    parser.add_argument(
        "--suite",
        choices=SUITES,
        default="torchbench",
        help="torchbench: its list, with transformers at their published depth; short: the "
        "transformers with 2 layers and 64 tokens; vision: none (default: %(default)s)",
    )
    parser.add_argument(
        "--models", type=model_names, metavar="NAME,...", help="these instead of the whole suite"
    )
    parser.add_argument(
        "--batch",
        type=batches,
        default=[1],
        metavar="N,...",
        help="numbers, eval (TorchBench's for each model), or small (the same, but 8 where 2 cores "
        "would take over 10 s a run) (default: 1)",
    )


def chosen(options):
    """(name, batch) for each model and batch, each once."""
    from .suite import batch_of

    pairs = {}
    for name in options.models or SUITES[options.suite]:
        for batch in options.batch:
            pairs[name, batch_of(name, batch)] = None
    return list(pairs)
