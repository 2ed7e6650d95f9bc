#!/usr/bin/env bash
# One round on a machine with an NVIDIA GPU, which needs no toolchain. In this repository, `device_round.sh pack` puts
# all that is run into the folder .gpu, this script too, and the peers' scripts from $PEERS_DIR if that is set; there,
# `.gpu/device_round.sh run` runs it, or the parts of it that are named. Results go to $OUT (or .gpu/out): summary.txt
# with a line for each part, and logs and reports in results.tar.gz. Exit code 1 if a part failed.
set -uo pipefail
cd "$(dirname "$0")"

readonly ALL_PARTS=(checks conformance verify training sanitizer speed products small vulkan vulkan_speed parity before_after)

pack() {
  set -e
  cd ..
  rm -rf .gpu
  mkdir -p .gpu/mnist .gpu/docs .gpu/tests/conformance
  cargo build --release --workspace --bin engine --bin my_plugin
  cp "${CARGO_TARGET_DIR:-target}"/release/{engine,my_plugin} .gpu/
  cargo test --workspace --test gpu --test cases --test conformance --test random --lib --no-run --message-format=json |
    python3 -c 'import json, shutil, sys
names = {"gpu": "gpu_tests", "cases": "cases_tests", "conformance": "conformance_tests", "random": "random_tests", "engine_runtime": "runtime_tests"}
for line in sys.stdin:
    message = json.loads(line)
    name = message.get("target", {}).get("name")
    if message.get("executable") and name in names:
        shutil.copy(message["executable"], ".gpu/" + names[name])'
  strip .gpu/engine .gpu/my_plugin .gpu/*_tests
  xz -T0 .gpu/engine .gpu/my_plugin .gpu/*_tests
  cp -r graphs benches/ops benches/*.py benches/device_round.sh examples/plugin/smooth.ron .gpu/
  cp tests/conformance/*.json .gpu/tests/conformance/
  cp docs/conformance.md .gpu/docs/
  if [ -n "${PEERS_DIR:-}" ]; then cp "$PEERS_DIR"/*.py .gpu/; fi
  cp -L "${ENGINE_DATA_DIR:?a folder with mnist/ in it}"/mnist/*.gz .gpu/mnist/
  du -sh .gpu
}

run() {
  out="${OUT:-$PWD/out}"
  work=$(mktemp -d)
  # What is too large to bring home.
  scratch=$(mktemp -d)
  mkdir -p "$out" "$work/ops"
  : >"$out/summary.txt"
  export ENGINE_OFFLINE=1 ENGINE_DATA_DIR="$PWD" ENGINE_REQUIRE=cuda RUST_BACKTRACE=1
  export ENGINE_CACHE_DIR="${ENGINE_CACHE_DIR:-$scratch/cache}"
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
    if [ -d "$folder" ]; then export LD_LIBRARY_PATH="$folder:${LD_LIBRARY_PATH:-}"; fi
  done
  failed=0
  for packed in ./*.xz; do
    if [ ! -e "$packed" ]; then continue; fi
    python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[1][:-3], "wb"))' "$packed"
    chmod +x "${packed%.xz}" && rm "$packed"
  done

  if vulkan_is_there; then export ENGINE_REQUIRE=cuda,wgpu; fi
  local parts=("$@")
  if [ $# = 0 ]; then parts=("${ALL_PARTS[@]}"); fi
  for chosen in "${parts[@]}"; do "$chosen"; done
  python3 - "$work" <<'PYTHON' | tee -a "$out/summary.txt"
import glob, json, os, sys
for path in sorted(glob.glob(sys.argv[1] + "/*.json")):
    report = json.load(open(path))
    for stage in report["stages"]:
        print(os.path.basename(path)[:-5], report["device"], stage["name"], f'{stage["seconds"]:.3f} s',
              f'{stage["step_us"]:.1f} us/step', stage["metrics"])
PYTHON
  tar -C "$work" -czf "$out/results.tar.gz" .
  rm -rf "$scratch"
  return $failed
}

# What is there, and whether it computes what it should: the same numbers on the GPU, on the CPU and unfused.
checks() {
  measure_devices
  PART_SECONDS=480 part tests ./gpu_tests --test-threads=4
  part cases ./cases_tests
  # Random pipelines, on each GPU.
  PROPTEST_CASES="${CASES:-60}" part random ./random_tests gpus
  # NVRTC takes the emitted texts, or says why not.
  part tests-of-texts ./runtime_tests cuda::
  part selftest ./engine selftest --device cuda
  plugin cuda
  bad_index cuda
  for graph in graphs/*.ron; do
    name=$(basename "$graph" .ron)
    report "$name" cpu
    report "$name" cuda
    report "$name" cuda --no-fuse
    compare "$name" "$name-cpu" "$name-cuda" "$name-cuda--no-fuse"
  done
  report mnist cuda --set=matmul=Tf32
  compare mnist-tf32 mnist-cpu mnist-cuda--set=matmul=Tf32
}

# An index out of bounds is the same error on all devices, and ends the run.
# The error of the CPU on this device.
bad_index() {
  cat >"$work/bad-index.ron" <<'RON'
(
  params: {"table": (type: "f32[50, 4]", init: Constant(1.0)), "stride": (type: "i32[9]", init: Constant(6), state: true)},
  nodes: {"rows": "cumsum(stride, axis=0)", "picked": "index_select(table, rows)"},
  stages: {"go": Run(outputs: ["picked"])},
)
RON
  local device code
  for device in cpu "$1"; do
    code=0
    ./engine run "$work/bad-index.ron" --device "$device" --quiet >"$work/said-on-$device" 2>&1 || code=$?
    echo "exit code $code" >>"$work/said-on-$device"
  done
  part "bad-index-$1" diff "$work/said-on-cpu" "$work/said-on-$1"
  part "bad-index-is-an-error-$1" grep -q 'exit code 1' "$work/said-on-$1"
}

# Every kernel of every shipped graph, and of the graphs that are timed at small sizes, against the interpreter, which takes
# one core for up to minutes: all beside each other.
verify() {
  local device=${1:-cuda} started=()
  for graph in ops/*.ron; do
    PART_SECONDS=420 part "verify-$device-ops-$(basename "$graph" .ron)" ./engine verify --device "$device" "$graph" --set 'dims={
      "N": 1028, "R": 6, "C": 132, "M": 40, "K": 72, "H": 3, "D": 24, "S": 37}' &
    started+=($!)
  done
  # Long rows, which are copied ahead, and more of them than processors.
  PART_SECONDS=420 part "verify-$device-long-rows" ./engine verify --device "$device" ops/rows.ron --set dims.R=133 &
  started+=($!)
  for graph in graphs/*.ron; do
    PART_SECONDS=420 part "verify-$device-$(basename "$graph" .ron)" ./engine verify --device "$device" "$graph" &
    started+=($!)
  done
  for one in "${started[@]}"; do wait "$one" || failed=1; done
}

# Whole runs of the classifier.
training() {
  part mnist-5-epochs ./engine run graphs/mnist.ron --device cuda --quiet --report "$work/mnist-5-epochs.json"
  for limit in 4096 0; do
    part "mnist-resident-$limit" ./engine run graphs/mnist.ron --device cuda --quiet --set train.epochs=3 \
      --resident-mib "$limit" --report "$work/mnist-resident-$limit.json"
  done
  compare mnist-resident mnist-resident-4096 mnist-resident-0
  residency
  for batch in 128 1024 8192; do
    part "mnist-batch-$batch" ./engine run graphs/mnist.ron --device cuda --quiet --set train.epochs=3 \
      --set "train.batch=$batch" --set matmul=Tf32 --report "$work/mnist-batch-$batch.json"
  done
}

# A step with its rows on the GPU, and with rows that come to it as steps need them, in turn.
residency() {
  for turn in 1 2 3; do
    for limit in 4096 0; do
      part "resident-$limit-$turn" ./engine bench graphs/mnist.ron --device cuda --stage train --set matmul=Tf32 \
        --at-once 32 --json --resident-mib "$limit"
    done
  done
  python3 - "$work" <<'PYTHON' | tee -a "$out/summary.txt"
import json, pathlib, statistics, sys
def times(limit):
    logs = sorted(pathlib.Path(sys.argv[1]).glob(f"resident-{limit}-*.log"))
    return [json.loads(log.read_text())["stages"][0]["median_us"] for log in logs]
resident, fetched = times(4096), times(0)
ratio = statistics.median(there / here for here, there in zip(resident, fetched))
print(json.dumps({"name": "MNIST step TF32, batch 128, resident and --resident-mib 0", "resident_us": resident,
                  "fetched_us": fetched, "fetched_over_resident": round(ratio, 3)}))
PYTHON
}

# Bad accesses and races, over small shapes.
sanitizer() {
  PATH="$PATH:/usr/local/cuda/bin"
  if ! command -v compute-sanitizer >"$work/sanitizer"; then
    fail "sanitizer: compute-sanitizer is neither on PATH nor in /usr/local/cuda/bin, so nothing was looked at"
    return
  fi
  for tool in memcheck racecheck; do
    for graph in ops/*.ron; do
      sanitized "$tool" "$(basename "$graph" .ron)" ./engine bench --device cuda --warmup 0 --steps 1 "$graph" --set 'dims={
          "N": 1028, "R": 6, "C": 132, "M": 40, "K": 72, "H": 3, "D": 24, "S": 37}'
    done
    # Long rows, which are copied ahead.
    sanitized "$tool" long-rows ./engine bench --device cuda --warmup 0 --steps 1 ops/rows.ron --set dims.R=150
    sanitized "$tool" mnist \
      ./engine bench --device cuda --warmup 0 --steps 1 graphs/mnist.ron --stage train --set train.batch=40
    # Sums in the order of their indices: few are looked through, many are sorted.
    for batch in 40 200; do
      sanitized "$tool" "in-order-$batch" ./engine bench --device cuda --warmup 0 --steps 1 graphs/embedding.ron --stage train \
        --set "train.batch=$batch" --set deterministic=true
    done
    # Rows sorted in several runs, and long selections; rows of a product in several panels.
    sanitized "$tool" long-sorts ./engine bench --device cuda --warmup 0 --steps 1 ops/selection.ron --set 'dims={"R": 3, "C": 20000}'
    sanitized "$tool" panels ./engine bench --device cuda --warmup 0 --steps 1 ops/search.ron \
      --set 'dims={"N": 40000, "M": 300, "D": 24}'
    # Steps of one graph, which numbers those after it.
    sanitized "$tool" many-steps ./engine bench --device cuda --warmup 0 --steps 2 --at-once 16 graphs/mnist.ron \
      --stage train --set train.batch=40
  done
  # Scans, sorting, selection, attention, indices, optimizers and halves (`cast`), by the examples of their ops.
  for filter in cumsum sort topk nearest attention scatter adam muon cast; do
    sanitized memcheck "selftest-$filter" ./engine selftest --device cuda --filter "$filter"
  done
}

# sanitized TOOL NAME COMMAND...: a tool that could not look says no sum of what it found. Now and then memcheck itself crashes
# when the program has ended (exit 11; cores show its own exit handlers calling a driver that has been taken down): such a run
# is taken again.
sanitized() {
  local tool=$1 name="$1-$2" turn code
  shift 2
  for turn in 1 2 3; do
    timeout "${PART_SECONDS:-240}" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$work/$name.log" 2>&1
    code=$?
    if [ $code != 11 ]; then break; fi
    echo "again  $name: the tool crashed after the program's end" | tee -a "$out/summary.txt"
  done
  if [ $code = 0 ] && grep -q 'SUMMARY: 0 ' "$work/$name.log"; then
    echo "ok     $name" | tee -a "$out/summary.txt"
  else
    tail -20 "$work/$name.log"
    fail "$name: exit $code; compute-sanitizer does not say that it found nothing"
  fi
}

# Times of single ops, beside PyTorch's if its script has been packed, and of the training step by kernel.
speed() {
  measure_devices
  for graph in ops/*.ron; do
    at_once=16 steps=20
    case "$graph" in
      # Steps of many kernels, and long ones.
      */search.ron | */selection.ron) at_once=1 ;;
      # A GPU that multiplies for long gets slower by its own heat, so these come in bursts from a rest, as in `products`.
      */products.ron) continue ;;
      # Below, by size; through wgpu.
      */narrow.ron | */square.ron) continue ;;
      # An ordered sum of so many rows is timed beside the other.
      */indices.ron) at_once=4 steps=3 ;;
    esac
    op "$(basename "$graph" .ron)" --at-once "$at_once" --steps "$steps" "$graph"
  done
  op selection-1024-65536 --at-once 16 --steps 20 ops/selection.ron --set dims.R=1024 --set dims.C=65536
  for dims in 8192,8192,8192 4096,4096,4096 8192,1024,4096; do
    IFS=, read -r m k n <<<"$dims"
    sleep 1
    op "products-$m-$k-$n" --at-once 4 --steps 2 ops/products.ron --set dims.M="$m" --set dims.K="$k" --set dims.N="$n"
  done
  for dims in 1024,256,128 4096,1024,512 16384,1024,2048; do
    IFS=, read -r rows columns indices <<<"$dims"
    op "indices-$rows-$columns-$indices" --at-once 320 --steps 100 ops/indices.ron \
      --set dims.R="$rows" --set dims.C="$columns" --set dims.M="$indices"
  done
  for rows in 128 1024 8192; do op "narrow-$rows" --at-once 320 --steps 40 ops/narrow.ron --set dims.M="$rows"; done
  for batch in 128 1024 8192; do
    op "mnist-$batch" --at-once 320 --steps 60 graphs/mnist.ron --stage train --set "train.batch=$batch" --set matmul=Tf32
  done
  part recall python3 search_recall.py "$scratch/dump" "$work/ops/recall.json"
  mkdir -p "$scratch/whole-run"
  part whole-run python3 whole_run.py "$work/ops" "$scratch/whole-run"
  if [ -e torch_ops.py ]; then
    part peer timeout "${PEER_SECONDS:-230}" python3 torch_ops.py
    part peer-selection python3 torch_selection.py
    part peer-narrow python3 torch_narrow.py
    cat "$work/peer.log" "$work/peer-selection.log" "$work/peer-narrow.log" "$work/whole-run.log" >"$work/peer.jsonl"
    if [ -e mnist_gpu_jax.py ]; then
      part peer-jax python3 mnist_gpu_jax.py
      sed -nE 's|^batch +([0-9]+) .*scan.gather +([0-9.]+) us/step.*|{"op": "mnist_step", "shape": [\1], "dtype": "tf32", "mode": "scan", "ms": \2e-3}|p' \
        "$work/peer-jax.log" >>"$work/peer.jsonl"
    fi
    part table python3 ops_table.py "$work/ops" "$work/peer.jsonl" "$work/devices.log"
    cat "$work/table.log" >>"$out/summary.txt"
  else
    skipped "the table of single ops: torch_ops.py has not been packed"
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

# Products by turns with the fastest of all algorithms that the library names, in bursts from a rest; each line is followed
# by ours. Fails if ours takes longer than 1 / 0.97 of that, by the median of the turns after the first, which tries algorithms.
products() {
  local dims m k n turn
  for turn in 1 2 3 4 5 6; do
    for dims in 8192,8192,8192 4096,4096,4096 8192,1024,4096; do
      IFS=, read -r m k n <<<"$dims"
      sleep 1
      part "product-$turn-$m-$k-$n-library" python3 cublaslt_best.py "$dims"
      sleep 1
      # Its first stage draws the data, without which there would be zeros to multiply.
      part "product-$turn-$m-$k-$n-ours" ./engine bench --device cuda --warmup 3 --at-once 4 --steps 3 --json \
        ops/products.ron --set dims.M="$m" --set dims.K="$k" --set dims.N="$n"
    done
  done
  part products python3 - "$work" <<'PYTHON'
import glob, json, re, statistics, sys
ratios = {}
for path in sorted(glob.glob(sys.argv[1] + "/product-*-library.log")):
    turn, shape = re.search(r"product-(\d+)-(.*)-library", path).groups()
    best = json.load(open(path))["ms"]
    stages = {stage["name"]: stage for stage in json.load(open(path.replace("library", "ours")))["stages"]}
    ours = stages["gemm_bias_relu"]["median_us"] * 1e-3
    print(f"product {shape}, turn {turn}: library {best:.4f} ms, ours {ours:.4f} ms, {best / ours:.3f}")
    if turn != "1":
        ratios.setdefault(shape, []).append(best / ours)
low = [shape for shape, found in ratios.items() if statistics.median(found) < 0.97]
for shape, found in ratios.items():
    print(f"product {shape}: {statistics.median(found):.3f} times as fast ({min(found):.3f} to {max(found):.3f})")
sys.exit(f"slower than 0.97 of the library: {low}" if low else 0)
PYTHON
  cat "$work/products.log" >>"$out/summary.txt"
}

# This version and the one packed as engine_before.xz, in turn.
before_after() {
  if [ ! -e engine_before ]; then
    skipped "times beside those of another version: engine_before has not been packed"
    return
  fi
  PART_SECONDS=560 part before-after python3 before_after.py ./engine_before ./engine --device "${DEVICE:-cuda}"
  cat "$work/before-after.log" >>"$out/summary.txt"
}

# Small gathers and scatters, which lead by less than the drift between two moments: ours and PyTorch's in turn.
small() {
  if [ ! -e torch_ops.py ]; then
    skipped "small rows in turn with PyTorch: torch_ops.py has not been packed"
    return
  fi
  PART_SECONDS=420 part small-rows python3 small_rows.py "${TURNS:-5}"
  cat "$work/small-rows.log" >>"$out/summary.txt"
}

# The same GPU through its Vulkan driver: ops and graphs.
vulkan() {
  if ! has_vulkan; then return; fi
  part selftest-wgpu ./engine selftest --device wgpu
  plugin wgpu
  bad_index wgpu
  for graph in graphs/*.ron; do
    name=$(basename "$graph" .ron)
    report "$name" cpu
    report "$name" wgpu
    report "$name" wgpu --no-fuse
    compare "$name-wgpu" "$name-cpu" "$name-wgpu" "$name-wgpu--no-fuse"
  done
  verify wgpu
}

# Times through Vulkan beside those of CUDA, in turn.
vulkan_speed() {
  if ! has_vulkan; then return; fi
  for graph in ops/*.ron; do
    name=$(basename "$graph" .ron)
    at_once=32 steps=10
    case "$name" in
      # Sorting and searching are not bound by memory; squares come below.
      search | selection | square) continue ;;
      products | indices) at_once=4 steps=3 ;;
    esac
    on_both "$name" "$graph" --at-once $at_once --steps $steps
  done
  # A launch of next to nothing: what a start takes.
  on_both start ops/maps.ron --stage map_chain --at-once 320 --steps 20 --set dims.N=32
  for dims in 1024,256,128 4096,1024,512 16384,1024,2048; do
    IFS=, read -r rows columns indices <<<"$dims"
    on_both "indices-$rows-$columns-$indices" ops/indices.ron --at-once 320 --steps 20 \
      --set dims.R="$rows" --set dims.C="$columns" --set dims.M="$indices"
  done
  # On matrix units where the driver has them.
  for dtype in f32 f16; do
    on_both "square-$dtype" ops/square.ron --at-once 4 --steps 5 --set "params.x.type=$dtype[N, N]" --set "params.w.type=$dtype[N, N]"
  done
  for batch in 128 1024 8192; do
    for matmul in F32 Tf32; do
      on_both "mnist-$batch-$matmul" graphs/mnist.ron --stage train --at-once 64 --steps 40 \
        --set "train.batch=$batch" --set "matmul=$matmul"
    done
    part "wgpu-profile-mnist-$batch" ./engine profile --device wgpu graphs/mnist.ron --stage train --set "train.batch=$batch"
    cat "$work/wgpu-profile-mnist-$batch.log" >>"$out/summary.txt"
  done
  part devices-table python3 devices_table.py "$work/on-cuda" "$work/on-wgpu"
  cat "$work/devices-table.log" >>"$out/summary.txt"
}

# on_both NAME ARGUMENT...: times of `engine bench` on both.
on_both() {
  local name=$1 device
  shift
  for device in cuda wgpu; do
    mkdir -p "$work/on-$device"
    part "$device-$name" ./engine bench --device "$device" --warmup 2 --json "$@"
    cp "$work/$device-$name.log" "$work/on-$device/$name.json"
  done
}

# Every op beside the recorded results of other programs. The page gets the figures of this machine.
conformance() {
  UPDATE_EXPECT=1 CONFORMANCE=all PART_SECONDS=480 part conformance ./conformance_tests no_op
  cp docs/conformance.md "$out/"
}

# docs/parity.md and docs/parity-nodes.md, made anew. That some rows are beyond tolerance, exit code 1, is what they tell, and
# no failure.
parity() {
  if ! has_vulkan; then return; fi
  local graphs=(graphs/*.ron) graph started=()
  local devices=(--device cpu,cuda,wgpu --markdown) code of_all=0 of_nodes=0
  # Every node by itself: many small kernels, to be compiled.
  for graph in "${graphs[@]}"; do
    ./engine verify "${devices[@]}" --no-fuse "$graph" >"$work/nodes-$(basename "$graph" .ron)" 2>>"$work/parity.err" &
    started+=($!)
  done
  ./engine verify "${devices[@]}" --all "${graphs[@]}" >"$out/parity.md" 2>>"$work/parity.err" || of_all=$?
  for one in "${started[@]}"; do
    code=0
    wait "$one" || code=$?
    if [ $code -gt $of_nodes ]; then of_nodes=$code; fi
  done
  {
    sed '/^## /,$d' "$work/nodes-mnist" | sed -e '1s/$/, node by node/' \
      -e "s#^    engine verify.*#    engine verify ${devices[*]} --no-fuse ${graphs[*]}#"
    for graph in "${graphs[@]}"; do sed -n '/^## /,$p' "$work/nodes-$(basename "$graph" .ron)"; done
  } >"$out/parity-nodes.md"
  part parity test $of_all -le 1
  part parity-nodes test $of_nodes -le 1
  cat "$work/parity.err" >>"$out/summary.txt"
}

vulkan_is_there() {
  ./engine devices | grep '^wgpu:0' | grep -qv 'not usable'
}

has_vulkan() {
  if vulkan_is_there; then return 0; fi
  skipped "Vulkan: $(./engine devices | grep '^wgpu:0')"
  return 1
}

# ---- What parts are made of.

# The devices with what each can do at most, once.
measure_devices() {
  if [ -e "$work/devices.log" ]; then return; fi
  part devices ./engine devices --measure
}

# plugin DEVICE: ops that are not the engine's own, alone and in a training.
plugin() {
  for op in softsign bessel_j0 running_median; do
    part "plugin-$op-$1" ./my_plugin selftest --device "$1" --filter "$op"
  done
  # WGSL promises no digits of a sine of small numbers, and the plugin takes it as it is.
  if [ "$1" = cuda ]; then part "plugin-verify-$1" ./my_plugin verify --device "$1" smooth.ron; fi
  part "plugin-run-$1" ./my_plugin run --device "$1" smooth.ron
}

# report NAME DEVICE [OPTION]: runs a shipped graph, trainings shortened, unless that has been done.
report() {
  local name=$1 device=$2 short=()
  shift 2
  local run_name="$name-$device$*"
  if [ -e "$work/$run_name.json" ]; then return; fi
  if grep -q Train "graphs/$name.ron"; then short=(--set train.epochs=1); fi
  part "$run_name" ./engine run "graphs/$name.ron" --device "$device" "$@" --quiet "${short[@]}" \
    --report "$work/$run_name.json"
}

# compare NAME FIRST OTHER...: whether reports say the same.
compare() {
  local name=$1
  shift
  local reports=("${@/#/$work/}")
  part "compare-$name" python3 compare_reports.py "${reports[@]/%/.json}"
  grep -E '^APART|of what is allowed$' "$work/compare-$name.log" >>"$out/summary.txt"
}

# part NAME COMMAND...: runs a command with its output in a log, and notes how it ended.
part() {
  local name=$1 start=$SECONDS code=0
  shift
  timeout "${PART_SECONDS:-240}" "$@" >"$work/$name.log" 2>&1 || code=$?
  if [ $code = 0 ]; then
    echo "ok     $name ($((SECONDS - start)) s)" | tee -a "$out/summary.txt"
  else
    tail -40 "$work/$name.log"
    fail "$name (exit $code, $((SECONDS - start)) s)"
  fi
}

# Each of these ends with a code, for parts beside each other are processes of their own.
fail() {
  echo "FAILED $1" | tee -a "$out/summary.txt"
  failed=1
  return 1
}

skipped() {
  echo "SKIPPED $1" | tee -a "$out/summary.txt"
}

expect_parts() {
  for chosen in "$@"; do
    case " ${ALL_PARTS[*]} " in
      *" $chosen "*) ;;
      *) usage ;;
    esac
  done
}

usage() {
  echo "usage: $0 pack | run [PART...], of ${ALL_PARTS[*]}" >&2
  exit 2
}

case "${1:-}" in
  pack) pack ;;
  run) expect_parts "${@:2}" && run "${@:2}" ;;
  *) usage ;;
esac
