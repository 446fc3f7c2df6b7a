"""Exports models of a suite with seeded random weights: python -m bench.zoo FOLDER"""

import argparse
import warnings

from . import arguments, suite


def main():
    parser = argparse.ArgumentParser(prog="python -m bench.zoo", description=__doc__)
    parser.add_argument("folder", help="for the archives, their inputs and outputs, and suite.json")
    arguments.add_models(parser)
    parser.add_argument(
        "--peers", action="store_true", help="also what bench/peers needs: modules and ONNX files"
    )
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name, batch in arguments.chosen(options):
        entry = suite.export(options.folder, name, batch, suite.FORMS if options.peers else ())
        # Written each time: what is done stays done when this is interrupted.
        path = suite.write(options.folder, options.suite, [entry])
        print(f"{name}, batch {batch}", flush=True)
    print(path)


if __name__ == "__main__":
    main()
