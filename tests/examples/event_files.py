"""Reads the event files of a log with TensorBoard's own reader and compares them with its lines of JSON.

    pip install tensorboard
    engine run GRAPH --log DIR
    python tests/examples/event_files.py DIR

Every number of a line must be in an event file under the same tag and step, in single precision. Of a step that a resumed
run has taken again, the last line counts.
"""

import json
import math
import struct
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def expected(lines):
    """Numbers by run, tag and step."""
    numbers = {}
    for line in lines:
        event, stage, step = line["event"], line.get("stage"), line.get("step")
        if event == "read":
            # A resumed run takes all later steps again.
            for points in numbers.values():
                for later in [known for known in points if known > step]:
                    del points[later]
            continue
        found = {}
        if event == "step":
            numbers_of_step = {k: v for k, v in line.items() if k in NUMBERS}
            found["train"] = {**line["metrics"], **line["rates"], **numbers_of_step}
        elif event == "epoch" and "split" in line:
            found[line["split"]] = line["evaluation"]
        elif event == "evaluation":
            found[line["split"]] = line["metrics"]
        for run, values in found.items():
            for tag, value in values.items():
                numbers.setdefault((f"{stage}/{run}", tag), {})[step] = value
    return numbers


NUMBERS = ["grad_norm", "steps_per_second", "rows_per_second", "device_bytes", "process_bytes"]


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def main(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    runs = {}
    n_points = 0
    for (run, tag), points in expected(lines).items():
        if run not in runs:
            runs[run] = EventAccumulator(str(folder / run), size_guidance={"scalars": 0, "tensors": 0})
            runs[run].Reload()
        found = {event.step: event.value for event in runs[run].Scalars(tag)}
        assert found.keys() == points.keys(), (run, tag, sorted(found.keys() ^ points.keys()))
        for step, value in points.items():
            is_equal = math.isnan(found[step]) if value is None else found[step] == single(value)
            assert is_equal, (run, tag, step, found[step], value)
        n_points += len(points)
    settings = lines[0]["settings"]
    trained = [name for name in runs if name.endswith("/train")]
    for name in trained:
        tensor = runs[name].Tensors("settings")[-1].tensor_proto.string_val[0].decode()
        assert all(f"| {path} | " in tensor for path in settings), tensor
    print(f"{len(runs)} runs, {n_points} numbers, {len(settings)} settings: equal")


main(Path(sys.argv[1]))
