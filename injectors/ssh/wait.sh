# Runs in the launcher, after setup.sh. Returns when enough hosts of the hostfile respond, so that the launcher starts
# only once and users do not see "Could not resolve hostname".
if ! command -v ssh-keyscan >/dev/null; then
  echo "rollcall: the image does not contain ssh-keyscan, so the launcher starts without waiting for the workers; install the package openssh-client"
  exit 0
fi
cp "$dir/mpi/hosts" "$dir/mpi/waiting"
# The pod of the launcher runs no sshd.
if [ "$ROLLCALL_LAUNCHER_IS_HOST" = true ]; then
  sed -i 1d "$dir/mpi/waiting"
fi
total=$(wc -l <"$dir/mpi/waiting") start=$(date +%s) reports=0
while :; do
  sh "$dir/ssh/responding" "$dir/mpi/waiting" >"$dir/mpi/responded" || :
  awk 'FILENAME == ARGV[1] { responded[$0]; next } !($0 in responded)' "$dir/mpi/responded" "$dir/mpi/waiting" >"$dir/mpi/missing"
  mv "$dir/mpi/missing" "$dir/mpi/waiting"
  missing=$(wc -l <"$dir/mpi/waiting") elapsed=$(($(date +%s) - start))
  if [ $((total - missing)) -ge "$ROLLCALL_MIN_HOSTS" ]; then
    echo "rollcall: $((total - missing)) of $total hosts respond"
    exit 0
  fi
  state="$missing of $total hosts do not respond after $elapsed s, starting with: $(head -n 3 "$dir/mpi/waiting" | tr '\n' ' ')"
  if [ "$elapsed" -ge "$ROLLCALL_WAIT_SECONDS" ]; then
    echo "rollcall: $state" | tee /dev/termination-log
    exit 1
  fi
  # One line of progress every 15 seconds.
  if [ $((elapsed / 15)) -ge "$reports" ]; then
    echo "rollcall: $state"
    reports=$((elapsed / 15 + 1))
  fi
  sleep 1
done
