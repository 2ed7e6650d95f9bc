#!/usr/bin/env bash
# One round on a machine with an NVIDIA GPU, which needs no toolchain. In this repository, `device_round.sh pack` puts
# all that is run into the folder .gpu, this script too; there, `.gpu/device_round.sh run` runs it, or the parts of it
# that are named. Results go to $OUT
# (or .gpu/out): summary.txt with a line for each part, and logs and reports in results.tar.gz. Exit code 1 if a part
# failed.
set -uo pipefail
cd "$(dirname "$0")"

pack() {
  set -e
  cd ..
  rm -rf .gpu
  mkdir -p .gpu/mnist
  cargo build --release --workspace --bin engine
  cp target/release/engine .gpu/engine
  cp "$(cargo test --workspace --test gpu --no-run --message-format=json |
    python3 -c 'import json, sys
messages = [json.loads(line) for line in sys.stdin]
print([message["executable"] for message in messages
       if message.get("executable") and message["target"]["name"] == "gpu"][0])')" .gpu/gpu_tests
  strip .gpu/engine .gpu/gpu_tests
  cp -r graphs benches/ops benches/ops_table.py benches/devices_table.py benches/torch_selection.py benches/device_round.sh .gpu/
  cp -L "${ENGINE_DATA_DIR:?a folder with mnist/ in it}"/mnist/*.gz .gpu/mnist/
  du -sh .gpu
}

run() {
  out="${OUT:-$PWD/out}"
  work=$(mktemp -d)
  mkdir -p "$out"
  : >"$out/summary.txt"
  export ENGINE_OFFLINE=1 ENGINE_DATA_DIR="$PWD" ENGINE_REQUIRE=cuda RUST_BACKTRACE=1
  export ENGINE_CACHE_DIR="${ENGINE_CACHE_DIR:-$work/cache}"
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
    if [ -d "$folder" ]; then export LD_LIBRARY_PATH="$folder:${LD_LIBRARY_PATH:-}"; fi
  done
  failed=0

  local parts=("$@")
  if [ $# = 0 ]; then parts=(checks training sanitizer speed vulkan); fi
  for chosen in "${parts[@]}"; do "$chosen"; done
  python3 - "$work" <<'PYTHON' | tee -a "$out/summary.txt"
import glob, json, os, sys
for path in sorted(glob.glob(sys.argv[1] + "/*.json")):
    report = json.load(open(path))
    for stage in report["stages"]:
        print(os.path.basename(path)[:-5], report["device"], stage["name"], f'{stage["seconds"]:.3f} s',
              f'{stage["step_us"]:.1f} us/step', stage["metrics"])
PYTHON
  tar -C "$work" -czf "$out/results.tar.gz" --exclude=cache .
  return $failed
}

# What is there, and whether it computes what it should.
checks() {
  part devices ./engine devices --measure
  part tests ./gpu_tests --test-threads=4
  part selftest ./engine selftest --device cuda
  for graph in graphs/*.ron; do
    name=$(basename "$graph" .ron)
    short=()
    if grep -q Train "$graph"; then short=(--set train.epochs=1); fi
    for device in cuda cpu; do
      part "$name-$device" ./engine run "$graph" --device "$device" --quiet "${short[@]}" \
        --report "$work/$name-$device.json"
    done
    part "$name-cuda-no-fuse" ./engine run "$graph" --device cuda --no-fuse --quiet "${short[@]}" \
      --report "$work/$name-cuda-no-fuse.json"
  done
}

# Whole runs of the classifier.
training() {
  part mnist-5-epochs ./engine run graphs/mnist.ron --device cuda --quiet --report "$work/mnist-5-epochs.json"
  for limit in 4096 0; do
    part "mnist-resident-$limit" ./engine run graphs/mnist.ron --device cuda --quiet --set train.epochs=3 \
      --resident-mib "$limit" --report "$work/mnist-resident-$limit.json"
    part "mnist-resident-$limit-bench" ./engine bench graphs/mnist.ron --device cuda --stage train --at-once 32 \
      --resident-mib "$limit"
  done
  for batch in 128 1024 8192; do
    part "mnist-batch-$batch" ./engine run graphs/mnist.ron --device cuda --quiet --set train.epochs=3 \
      --set "train.batch=$batch" --set matmul=Tf32 --report "$work/mnist-batch-$batch.json"
  done
}

# Bad accesses and races, over small shapes.
sanitizer() {
  if ! command -v compute-sanitizer >"$work/sanitizer"; then return; fi
  for tool in memcheck racecheck; do
    for graph in ops/*.ron; do
      part "$tool-$(basename "$graph" .ron)" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        ./engine bench --device cuda --warmup 0 --steps 1 "$graph" --set 'dims={
          "N": 1028, "R": 6, "C": 132, "M": 40, "K": 72, "H": 3, "D": 24, "S": 37}'
    done
    # Long rows, which are copied ahead.
    part "$tool-long-rows" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ./engine bench --device cuda --warmup 0 --steps 1 ops/rows.ron --set dims.R=150
    part "$tool-mnist" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ./engine bench --device cuda --warmup 0 --steps 1 graphs/mnist.ron --stage train --set train.batch=40
  done
}

# Times of single ops, beside PyTorch's if its script has been packed, and of the training step by kernel.
speed() {
  mkdir -p "$work/ops"
  for graph in ops/*.ron; do
    at_once=16 steps=20
    case "$graph" in
      # Steps of many kernels, and long ones.
      */search.ron | */selection.ron) at_once=1 ;;
      # Beside a peer that is timed call by call: a GPU that multiplies for long gets slower by its own heat.
      */products.ron) steps=2 ;;
      # An ordered sum of so many rows is timed beside the other.
      */indices.ron) at_once=4 steps=3 ;;
    esac
    op "$(basename "$graph" .ron)" --at-once "$at_once" --steps "$steps" "$graph"
  done
  op selection-1024-65536 --at-once 16 --steps 20 ops/selection.ron --set dims.R=1024 --set dims.C=65536
  for dims in 4096,4096,4096 8192,1024,4096; do
    IFS=, read -r m k n <<<"$dims"
    op "products-$m-$k-$n" --at-once 16 --steps 20 ops/products.ron --set dims.M="$m" --set dims.K="$k" --set dims.N="$n"
  done
  for dims in 1024,256,128 4096,1024,512 16384,1024,2048; do
    IFS=, read -r rows columns indices <<<"$dims"
    op "indices-$rows-$columns-$indices" --at-once 320 --steps 20 ops/indices.ron \
      --set dims.R="$rows" --set dims.C="$columns" --set dims.M="$indices"
  done
  for batch in 128 1024 8192; do
    op "mnist-$batch" --at-once 320 --steps 20 graphs/mnist.ron --stage train --set "train.batch=$batch" --set matmul=Tf32
  done
  if [ -e torch_ops.py ]; then
    part peer timeout "${PEER_SECONDS:-230}" python3 torch_ops.py
    part peer-selection python3 torch_selection.py
    cat "$work/peer.log" "$work/peer-selection.log" >"$work/peer.jsonl"
    if [ -e mnist_gpu_jax.py ]; then
      part peer-jax python3 mnist_gpu_jax.py
      sed -nE 's|^batch +([0-9]+) .*scan.gather +([0-9.]+) us/step.*|{"op": "mnist_step", "shape": [\1], "dtype": "tf32", "mode": "scan", "ms": \2e-3}|p' \
        "$work/peer-jax.log" >>"$work/peer.jsonl"
    fi
    part table python3 ops_table.py "$work/ops" "$work/peer.jsonl"
    cat "$work/table.log" >>"$out/summary.txt"
  fi
  for batch in 128 1024 8192; do
    part "profile-mnist-$batch" ./engine profile --device cuda graphs/mnist.ron --stage train \
      --set "train.batch=$batch" --set matmul=Tf32
    part "bench-mnist-$batch" ./engine bench --device cuda graphs/mnist.ron --stage train --steps 20 --at-once 320 \
      --set "train.batch=$batch" --set matmul=Tf32
    cat "$work/profile-mnist-$batch.log" "$work/bench-mnist-$batch.log" >>"$out/summary.txt"
  done
}

op() {
  local name=$1
  shift
  part "ops-$name" ./engine bench --device cuda --warmup 3 --json "$@"
  cp "$work/ops-$name.log" "$work/ops/$name.json"
}

# The same GPU through its Vulkan driver: ops, graphs, and times beside those of CUDA.
vulkan() {
  if ! ./engine devices | grep '^wgpu:0' | grep -qv 'not usable'; then return; fi
  mkdir -p "$work/ops" "$work/wgpu"
  part selftest-wgpu ./engine selftest --device wgpu
  for graph in graphs/*.ron; do
    name=$(basename "$graph" .ron)
    short=()
    if grep -q Train "$graph"; then short=(--set train.epochs=1); fi
    part "$name-wgpu" ./engine run "$graph" --device wgpu --quiet "${short[@]}" --report "$work/$name-wgpu.json"
  done
  for graph in ops/*.ron; do
    name=$(basename "$graph" .ron)
    # Products are computed without the matrix units here, so large ones take long.
    case "$name" in search | selection) continue ;; esac
    part "wgpu-$name" ./engine bench --device wgpu --warmup 2 --steps 10 --at-once 4 --json "$graph"
    cp "$work/wgpu-$name.log" "$work/wgpu/$name.json"
  done
  for batch in 128 1024 8192; do
    for device in cuda wgpu; do
      part "$device-mnist-$batch" ./engine bench --device "$device" graphs/mnist.ron --stage train --steps 20 \
        --at-once 64 --json --set "train.batch=$batch"
    done
    cp "$work/cuda-mnist-$batch.log" "$work/ops/mnist-$batch.json"
    cp "$work/wgpu-mnist-$batch.log" "$work/wgpu/mnist-$batch.json"
  done
  part devices-table python3 devices_table.py "$work/ops" "$work/wgpu"
  cat "$work/devices-table.log" >>"$out/summary.txt"
}

# part NAME COMMAND...: runs a command with its output in a log, and notes how it ended.
part() {
  local name=$1 start=$SECONDS code=0
  shift
  timeout 240 "$@" >"$work/$name.log" 2>&1 || code=$?
  if [ $code = 0 ]; then
    echo "ok     $name ($((SECONDS - start)) s)" | tee -a "$out/summary.txt"
  else
    echo "FAILED $name (exit $code, $((SECONDS - start)) s)" | tee -a "$out/summary.txt"
    tail -40 "$work/$name.log"
    failed=1
  fi
}

case "${1:-}" in
  pack) pack ;;
  run) run "${@:2}" ;;
  *) echo "usage: $0 pack | run [checks] [training] [sanitizer] [speed] [vulkan]" >&2; exit 2 ;;
esac
