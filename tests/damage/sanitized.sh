#!/usr/bin/env bash
# Runs what exercises the kernels on a copy of the source whose extensions report bad memory and
# bad numbers: their tests, malformed frames, and starts on damaged folders.
# Usage: PYTHON=interpreter [SEED=number] sanitized.sh FOLDER [arguments of pytest]
set -euo pipefail
cd "$1"
shift

# The folder goes before the checkout that the environment has; processes of the tests get it, too.
export PYTHONPATH=$PWD PYTHONMALLOC=malloc
LD_PRELOAD=$(gcc -print-file-name=libasan.so)
export LD_PRELOAD
# The interpreter keeps what it has made until it ends; a small quarantine leaves tests of memory
# something to measure.
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=8 UBSAN_OPTIONS=print_stacktrace=1
export DAMAGED_FOLDERS=${DAMAGED_FOLDERS:-300} DAMAGED_SEED=${SEED:-}
export FUZZ_FRAMES=${FUZZ_FRAMES:-1000} FUZZ_SEED=${SEED:-}

"$PYTHON" - <<'PY'
from pathlib import Path

from siltstone.protocol.core import compaction
from hatch_build import KERNELS

assert Path(compaction.__file__).is_relative_to(Path.cwd()), compaction.__file__
assert all(list(Path().glob(each.rpartition(".")[0] + ".*.so")) for each in KERNELS)
PY

run() {
  "$PYTHON" -m pytest -p no:cacheprovider -p no:faulthandler "$@"
}

# One half for each of two processors.
kernels=(
  tests/protocol/core
  tests/protocol/records/test_journal.py
  tests/protocol/coordinator
  tests/protocol/messages/test_damaged.py
  tests/broker/net/test_gate.py
  tests/broker/net/turn/test_kernels.py
  tests/fuzz/test_fuzz.py
)
run -s tests/damage "$@" >damage.out 2>&1 &  # -s: what ends the process leaves its seed behind
damage=$!
status=0
run "${kernels[@]}" "$@" || status=$?
if wait "$damage"; then
  tail -n 3 damage.out
else
  status=1
  cat damage.out
fi
exit "$status"
