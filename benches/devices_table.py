#!/usr/bin/env python3
"""Our times of single ops on two devices, side by side, with what the host does for a step on the second.

Usage: devices_table.py FIRST SECOND, folders of `NAME.json` as `engine bench --json` prints them. Stages that only one of
them has are left out.
"""
import json
import pathlib
import sys


def times(path):
    return {stage["name"]: (stage["median_us"], stage.get("host_us")) for stage in json.load(open(path))["stages"]}


def main():
    first, second = map(pathlib.Path, sys.argv[1:3])
    print(f"{'':40} {'first us':>11} {'second us':>11} {'second/first':>13} {'host us':>9}")
    for path in sorted(first.glob("*.json")):
        other = second / path.name
        if not other.exists() or not path.stat().st_size or not other.stat().st_size:
            continue
        ours, theirs = times(path), times(other)
        for name in ours.keys() & theirs.keys():
            label = f"{path.stem} {name}"
            (here, _), (there, host) = ours[name], theirs[name]
            told = "" if host is None else f"{host:.2f}"
            print(f"{label:40} {here:11.2f} {there:11.2f} {there / here:12.2f}x {told:>9}")


if __name__ == "__main__":
    main()
