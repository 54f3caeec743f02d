# Runs in the launcher, after prepare.sh: returns when all hosts of the hostfile answer, so that the launcher starts
# once, and no user sees "Could not resolve hostname".
if ! command -v ssh-keyscan >/dev/null; then
  echo "rollcall: this image has no ssh-keyscan, so nobody waits for the workers; add the package openssh-client"
  exit 0
fi
cp "$dir/mpi/hosts" "$dir/mpi/waiting"
if [ "$ROLLCALL_SELF" = true ]; then # the launcher itself, which needs no sshd
  sed -i 1d "$dir/mpi/waiting"
fi
all=$(wc -l <"$dir/mpi/waiting") began=$(date +%s) said=0
while :; do
  sh "$dir/ssh/answering" "$dir/mpi/waiting" >"$dir/mpi/answered" || :
  awk 'FILENAME == ARGV[1] { there[$0]; next } !($0 in there)' "$dir/mpi/answered" "$dir/mpi/waiting" >"$dir/mpi/missing"
  mv "$dir/mpi/missing" "$dir/mpi/waiting"
  missing=$(wc -l <"$dir/mpi/waiting") waited=$(($(date +%s) - began))
  if [ $((all - missing)) -ge "$ROLLCALL_WAIT_FOR" ]; then
    echo "rollcall: $((all - missing)) of $all hosts answer"
    exit 0
  fi
  state="$missing of $all hosts do not answer after $waited s, the first: $(head -n 3 "$dir/mpi/waiting" | tr '\n' ' ')"
  if [ "$waited" -ge "$ROLLCALL_WAIT" ]; then
    echo "rollcall: $state" | tee /dev/termination-log
    exit 1
  fi
  if [ $((waited / 15)) -ge "$said" ]; then
    echo "rollcall: $state"
    said=$((waited / 15 + 1))
  fi
  sleep 1
done
