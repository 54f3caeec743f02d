# Runs beside the launcher, and says when that has ended how many hosts it reached by ssh: an mpirun that ignores its
# hostfile runs all ranks in the launcher, and succeeds.
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
