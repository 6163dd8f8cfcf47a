#!/bin/bash
@about@
# Runs nccl-tests and compares its bus bandwidth; exit 1 if a size falls short.
@scheduler@
set -euo pipefail
gates=$(mktemp) log=$(mktemp)
trap 'rm -f "$gates" "$log"' EXIT
# test, bytes, GB/s
cat >"$gates" <<'END'
@gates@
END
compare() {
  awk -v test="$1" '
    FNR == NR { if ($1 == test) gate[$2] = $3; next }
    $1 == "preflight:" { mine = $2 == test; column = 0; next }
    $1 == "#" { for (i = 1; i <= NF; i++) if ($i == "busbw") { column = i - 1; break } next }
    mine && column && $1 ~ /^[0-9]+$/ {
      for (size in gate) if ($1 + 0 <= size + 0 && $1 + 0 > size * 0.99) {
        seen[size] = 1
        if ($column + 0 >= gate[size] + 0) continue
        printf "%s_perf at %s B: %s GB/s, the gate is %s\n", test, size, $column, gate[size]
        low = 1
      }
    }
    END {
      for (size in gate) if (!(size in seen)) {
        printf "%s_perf at %s B: no result\n", test, size
        low = 1
      }
      exit low
    }
  ' "$gates" "$log"
}
@run@
low=0
@comparisons@
exit $low
