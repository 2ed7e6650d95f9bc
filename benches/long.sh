#!/usr/bin/env bash
# The long suites of benches/long.md: long.sh DATA [PART…], by default all parts. DATA is a folder with mnist/ and text/.
# Prints the figures of each part, to be noted there with date and machine. Exit code 1 if a part failed. The parts
# `…_torch` need a Python with torch, scikit-learn and numpy, which PYTHON names. The part `onnx_models` needs one with torch,
# torchvision, transformers, onnx, onnxruntime and onnxscript.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly ALL=(malformed readers indexes random types nvrtc onnx onnx_models conformance gpt classifier_bn gru mnist mnist_cnn tiny_gpt houses recommender hybrid gpt_torch gru_torch classifier_bn_torch houses_torch recommender_torch)
data=$(realpath "${1:?usage: long.sh DATA [PART…]}")
shift
python=${PYTHON:-python3} device=${DEVICE:-cpu} failed=0 settings=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Damaged files of every format, in processes that must not panic.
readers() {
  ENGINE_FUZZ_SECONDS=${SECONDS_OF_FUZZ:-100} ENGINE_FUZZ_SEED=$RANDOM cargo test -p engine-runtime --lib -- damage
}
# Searches and indexes of rows that are hard to tell apart, so many times the cases of a landing.
indexes() {
  ENGINE_INDEX_TIMES=${TIMES:-200} ENGINE_INDEX_SEED=$RANDOM cargo test -p engine-runtime --test indexes -- --nocapture
}
malformed() { ENGINE_SOAK=${CASES:-6000} cargo test --test soak -- --nocapture; }
# The tests of the package `onnx` (later wheels lack those of nodes), and damaged models.
onnx() {
  "$python" -m pip download --quiet --no-deps --dest "$work" onnx==1.22.0 || return 1
  "$python" -m zipfile -e "$work"/onnx-1.22.0-*.whl "$work/onnx" || return 1
  ENGINE_ONNX_TESTS="$work/onnx/onnx/backend/test/data" cargo test --test onnx -- --nocapture node_tests || return 1
  ENGINE_FUZZ_SECONDS=${SECONDS_OF_FUZZ:-100} ENGINE_FUZZ_SEED=$RANDOM cargo test --test onnx -- --nocapture damaged
}
# Models of torchvision and transformers in their published sizes, exported here and compared with onnxruntime.
onnx_models() {
  mkdir "$work/models" && "$python" tests/examples/onnx_models.py --large "$work/models" || return 1
  ENGINE_ONNX_MODELS="$work/models" cargo test --release --test onnx -- large_models
  local ended=$?
  rm -r "$work/models"
  return $ended
}
random() { PROPTEST_CASES=${CASES:-2000} cargo test --test random && PROPTEST_CASES=200 cargo test --test loops random_cells; }
# Every op in every type, on each GPU that is present.
types() { ENGINE_TYPES=all cargo test --test gpu types; }
# Every kernel of CUDA by NVRTC, which needs no GPU.
nvrtc() {
  "$python" -m pip download --quiet --no-deps --dest "$work" \
    nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-runtime==13.5.37 nvidia-cuda-cccl==13.3.5.0.6 || return 1
  for wheel in "$work"/nvidia_cuda_*.whl; do "$python" -m zipfile -e "$wheel" "$work/nvrtc" || return 1; done
  ENGINE_NVRTC="$work/nvrtc/nvidia/cu13" ENGINE_NVRTC_ALL=1 cargo test --test nvrtc -- --nocapture
}
conformance() { CONFORMANCE=all cargo test --test conformance; }
# The bounds follow from the tables of benches/long.md: 1.01 of PyTorch's mean, and for `gru` its noise over three seeds.
gpt() { trained gpt 'loss <= 1.9002' 1 2 3; }
classifier_bn() { trained classifier_bn 'accuracy >= 0.9723' 1 2 3; }
gru() { trained gru 'loss <= 2.19' 1 2 3; }
mnist() {
  local settings=(--set train.epochs=20)
  trained mnist 'accuracy >= 0.979' 1 2 3
}
mnist_cnn() { trained mnist_cnn 'accuracy >= 0.992' 1 2 3; }
# Rows of 16 letters are reversed. By chance, one letter of 35 is right.
tiny_gpt() {
  local stage=test_reverse
  trained tiny_gpt 'accuracy >= 0.95' 1
}
houses() { trained houses 'loss <= 0.010605' 1 2 3 4 5; }
recommender() { trained recommender 'ndcg >= 0.28303' 1 2 3; }
hybrid() { predicted 1 2 3 4 5; }
gpt_torch() { "$python" benches/gpt_torch.py "$data/text/tinyshakespeare.txt" 3; }
gru_torch() { "$python" benches/gru_torch.py "$data/text/tinyshakespeare.txt" 3; }
classifier_bn_torch() { "$python" benches/classifier_bn_torch.py "$data/mnist" 3; }
houses_torch() { rows && "$python" benches/houses_torch.py "$work/rows" 5; }
recommender_torch() { rows && "$python" benches/recommender_torch.py "$work/rows" 3; }

# trained GRAPH BOUND SEED…: whole trainings with `settings`, and the metrics of each stage. The bound holds for the mean over
# the seeds of a metric of the stage `test`, or of the one that `stage` names.
trained() {
  local graph=$1 bound=$2 seed
  shift 2
  : >"$work/tested"
  for seed in "$@"; do
    cargo run --quiet --release --bin engine -- run "graphs/$graph.ron" --device "$device" --data-dir "$data" --quiet \
      --set "seed=$seed" "${settings[@]}" --report "$work/$graph.json" >"$work/said" || return 1
    "$python" - "$work/$graph.json" "$seed" "$bound" "$work/tested" "${stage:-test}" <<'PYTHON' || return 1
import json, sys
report, seed, bound, tested, test = sys.argv[1:]
for stage in json.load(open(report))["stages"]:
    print("seed", seed, stage["name"], f'{stage["steps"]} steps, {stage["step_us"] / 1000:.2f} ms each', stage["metrics"])
    if stage["name"] == test:
        print(stage["metrics"][bound.split()[0]], file=open(tested, "a"))
PYTHON
  done
  "$python" - "$bound" "$work/tested" <<'PYTHON'
import sys
bound, values = sys.argv[1], [float(line) for line in open(sys.argv[2])]
metric, comparison, limit = bound.split()
mean = sum(values) / len(values)
holds = mean <= float(limit) if comparison == "<=" else mean >= float(limit)
print(f"mean {metric} {mean:.6g}, wanted {comparison} {limit}{'' if holds else ': FAILED'}")
sys.exit(not holds)
PYTHON
}

# predicted SEED…: trainings with predicted steps beside whole ones. Bounds for the mean gaps of losses on the test rows and
# on the training rows, for the share of steps without a backward pass, and for the time of all seeds together.
predicted() {
  local seed
  : >"$work/tested"
  for seed in "$@"; do
    cargo run --quiet --release --bin engine -- run graphs/hybrid_trainer.ron --device "$device" --data-dir "$data" --quiet \
      --set "seed=$seed" --report "$work/hybrid.json" >"$work/said" || return 1
    "$python" - "$work/hybrid.json" "$seed" "$work/tested" <<'PYTHON' || return 1
import json, sys
report = json.load(open(sys.argv[1]))
gap, train_gap, share = (report["outputs"][name]["values"][0] for name in ("gap", "train_gap", "share"))
stages = {stage["name"]: stage for stage in report["stages"]}
times = [stages[name]["seconds"] for name in ("phases", "whole")]
losses = [stages[name]["metrics"]["loss"] for name in ("test", "test_whole")]
print("seed", sys.argv[2], "losses %.4f %.4f, gaps %.4f %.4f, share %.3f, seconds %.2f %.2f" % (*losses, gap, train_gap, share, *times))
print(gap, train_gap, share, *times, file=open(sys.argv[3], "a"))
PYTHON
  done
  "$python" - "$work/tested" <<'PYTHON'
import sys
rows = [[float(word) for word in line.split()] for line in open(sys.argv[1])]
gap, train_gap, share, phases, whole = (sum(column) / len(rows) for column in zip(*rows))
holds = max(gap, train_gap) <= 0.02 and share >= 0.3 and phases < whole
print(f"mean gaps {gap:.4f} and {train_gap:.4f}, share {share:.3f}, seconds {phases:.2f} and {whole:.2f}{'' if holds else ': FAILED'}")
sys.exit(not holds)
PYTHON
}

# The rows of houses and choices, for programs that are not ours.
rows() { [ -e "$work/rows" ] || { mkdir "$work/rows" && cargo run --quiet --release -p engine-laws --example write "$work/rows"; }; }

parts=("$@")
if [ $# = 0 ]; then parts=("${ALL[@]}"); fi
for part in "${parts[@]}"; do
  case " ${ALL[*]} " in *" $part "*) ;; *) echo "there is no part $part; parts: ${ALL[*]}" >&2; exit 2 ;; esac
done
for part in "${parts[@]}"; do
  start=$SECONDS
  echo "== $part"
  "$part" || { failed=1; echo "FAILED $part"; }
  echo "== $part took $((SECONDS - start)) s"
done
exit $failed
