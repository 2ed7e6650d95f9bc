#!/usr/bin/env python3
"""Our times of single ops on two devices, side by side.

Usage: devices_table.py FIRST SECOND, folders of `NAME.json` as `engine bench --json` prints them. Stages that only one of
them has are left out.
"""
import json
import pathlib
import sys


def times(path):
    return {stage["name"]: stage["median_us"] for stage in json.load(open(path))["stages"]}


def main():
    first, second = map(pathlib.Path, sys.argv[1:3])
    print(f"{'':40} {'first us':>11} {'second us':>11} {'second/first':>13}")
    for path in sorted(first.glob("*.json")):
        other = second / path.name
        if not other.exists() or not path.stat().st_size or not other.stat().st_size:
            continue
        ours, theirs = times(path), times(other)
        for name in ours.keys() & theirs.keys():
            label = f"{path.stem} {name}"
            print(f"{label:40} {ours[name]:11.2f} {theirs[name]:11.2f} {theirs[name] / ours[name]:12.2f}x")


if __name__ == "__main__":
    main()
