# Runs as a sidecar of the launcher. On termination, reports the number of hosts that the launcher reached by ssh. An
# mpirun that ignores its hostfile runs all ranks in the launcher and succeeds. Only this number reveals the mistake.
dir=${ROLLCALL_DIR:-/etc/rollcall}
report() {
  touch "$dir/ssh/reached"
  reached=$(awk -v own="$(uname -n)" '{ sub(/\..*/, "") } $0 != own && !seen[$0]++ { n++ } END { print n + 0 }' "$dir/ssh/reached")
  echo "reached=$reached" >"${ROLLCALL_REPORT:-/dev/termination-log}"
  exit 0
}
trap report TERM
while :; do
  sleep 3600 &
  wait $! || :
done
