#!/usr/bin/env python3
"""Whether runs of one graph came to the same numbers: reports of `engine run --report`, each compared with the first.

Usage: compare_reports.py FIRST.json OTHER.json... Every loss and metric of every stage and epoch, and every value of
`Run` stages, must be there in all of them and be as near as allowed below. Exit code 1 if one is not.
"""
import json
import pathlib
import sys

# Devices add up in other orders, so results in f32 differ in their last digits, and each step of a training carries that
# on: after an epoch losses were up to 8e-5 apart fused and unfused on one CPU, and up to 2e-4, all digits that were
# printed, on an H200 and the CPU. A wrong gradient, draw or schedule shows as percents.
TRAINED_LOSS = 1e-3
# Where choices are drawn in training, one that falls otherwise changes a gradient as a whole: 4e-4 apart on the two.
TRAINED_LOSS_OF = {"navigator": 2e-3}
# Shares of right answers move by whole rows where two answers are all but equal: 5 of 1000.
TRAINED_SHARE = 5e-3
# Before any training only single sums differ: 1e-5·√K of at most some thousand elements.
LOSS = 1e-4
SHARE = 1e-3
# What `Run` stages give: attention may be off by so much in f32, and what is rounding error itself by so little.
OUTPUT, OUTPUT_FLOOR = 2e-3, 1e-5


def main():
    first, *others = [pathlib.Path(path) for path in sys.argv[1:]]
    expected = numbers(json.loads(first.read_text()))
    n_apart = sum(compare(expected, path) for path in others)
    if not expected:
        sys.exit(f"{first.name} has no numbers to compare")
    if n_apart:
        sys.exit(f"{n_apart} numbers are apart from those of {first.stem}")


def compare(expected, path):
    """Prints each number beside the expected one; how many are apart."""
    found = numbers(json.loads(path.read_text()))
    apart = sorted(expected.keys() ^ found.keys())
    for label in apart:
        print(f"APART {path.stem}: {label} is only in one of the reports")
    worst = 0.0
    for label in (label for label in expected if label in found):
        share = share_of_allowed(expected[label], found[label])
        worst = max(worst, share)
        if share > 1.0:
            apart.append(label)
        if share > 1.0 or not label.startswith("output"):
            print(f"{'APART' if share > 1.0 else 'ok   '} {path.stem}: {label}: {found[label][0]} beside {expected[label][0]}, "
                  f"{share:.1%} of the difference that is allowed")
    print(f"{path.stem}: {len(expected)} numbers, {len(apart)} apart; at most {worst:.1%} of what is allowed\n")
    return len(apart)


def share_of_allowed(expected, found):
    """How much of the allowed difference there is. Nothing is near what is no number."""
    (value, allowed), (other, _) = expected, found
    if value is None or other is None:
        return 0.0 if value is other else float("inf")
    difference = abs(value - other)
    return difference / allowed if allowed else (0.0 if difference == 0 else float("inf"))


def numbers(report):
    """All numbers of a report: (value, difference that is allowed) by what they are."""
    found, is_trained = {}, False
    trained_loss = TRAINED_LOSS_OF.get(report["graph"], TRAINED_LOSS)

    def measured(key, value):
        """A metric with the difference that is allowed: relative for losses, absolute for shares of right answers."""
        if "loss" not in key:
            return value, TRAINED_SHARE if is_trained else SHARE
        return value, (trained_loss if is_trained else LOSS) * abs(value or 0.0)

    for place, stage in enumerate(report["stages"]):
        is_trained |= stage["kind"] == "train"
        name = f"stage {place}, {stage['name']}"
        for epoch in stage.get("epochs", []):
            metrics = {"train_loss": epoch["train_loss"], **epoch["metrics"]}
            metrics |= {f"train {key}": value for key, value in epoch.get("train_metrics", {}).items()}
            found |= {f"{name}, epoch {epoch['epoch']}: {key}": measured(key, value)
                      for key, value in metrics.items()}
        found |= {f"{name}: {key}": measured(key, value) for key, value in stage["metrics"].items()}
    for name, output in report["outputs"].items():
        is_float = output["type"].startswith(("f", "bf"))
        for place, value in enumerate(output["values"]):
            allowed = OUTPUT_FLOOR + OUTPUT * abs(value or 0.0) if is_float else 0.0
            found[f"output {name}[{place}]"] = value, allowed
    return found


if __name__ == "__main__":
    main()
