# Runs before the containers of every rank, as their user, and makes in /etc/rollcall what ssh wants to be this user's
# own. The environment says where the gang's hosts are.
set -eu
umask 022
dir=${ROLLCALL_DIR:-/etc/rollcall} etc=${ROLLCALL_ETC:-/etc/rollcall-etc} key=${ROLLCALL_KEY:-/etc/rollcall-key}
export TMPDIR="$dir" # some shells write here-documents to a file
mkdir -p "$dir/ssh" "$dir/mpi"

# The hosts, one a line, in the order of their ranks: "<name> <from> <to>" for each workload.
hosts() {
  printf '%s\n' "$1" | while read -r name i last; do
    while [ "$i" -le "$last" ]; do
      echo "$name-$i.$ROLLCALL_DOMAIN"
      i=$((i + 1))
    done
  done
}
hosts "$ROLLCALL_HOSTS" >"$dir/mpi/hosts"
# A launcher that is a host itself stands there by its bare hostname, by which every MPI knows its own host: by a longer
# name MPICH and Intel MPI would call it by ssh, and PRRTE not find it in a list of the user's.
[ "$ROLLCALL_SELF" != true ] || sed -i '1s/\..*//' "$dir/mpi/hosts"
sed "s/\$/ slots=$ROLLCALL_SLOTS/" "$dir/mpi/hosts" >"$dir/mpi/hostfile.slots"
sed "s/\$/:$ROLLCALL_SLOTS/" "$dir/mpi/hosts" >"$dir/mpi/hostfile.hydra"
cp "$dir/mpi/hostfile.$ROLLCALL_HOSTFILE" "$dir/mpi/hostfile"

# For elastic launchers: the hosts that answer now, with their slots. The launcher's own pod has no sshd to ask.
hosts "${ROLLCALL_CANDIDATES:-$ROLLCALL_HOSTS}" >"$dir/mpi/candidates"
[ "$ROLLCALL_SELF" != true ] || sed -n 1p "$dir/mpi/candidates" >"$dir/mpi/self"
[ "$ROLLCALL_SELF" != true ] || sed -i 1d "$dir/mpi/candidates"
cat >"$dir/mpi/discover_hosts.sh" <<END
#!/bin/sh
{
  [ ! -e $dir/mpi/self ] || cat $dir/mpi/self
  [ ! -e $dir/ssh/answering ] || sh $dir/ssh/answering $dir/mpi/candidates
} | sed 's/\$/:$ROLLCALL_SLOTS/'
END
chmod 755 "$dir/mpi/discover_hosts.sh"

[ -e "$key/ssh-privatekey" ] || exit 0 # a gang of one host

# ssh refuses a private key that others can read, and users that have no name.
rm -f "$dir/ssh/id"
(umask 077 && cat "$key/ssh-privatekey" >"$dir/ssh/id")
public=$(cut -d ' ' -f 1,2 "$key/ssh-publickey")
echo "$public" >"$dir/ssh/authorized_keys"
echo "* $public" >"$dir/ssh/known_hosts"
# The name is the same on all hosts, has a shell that is there, and no entry in shadow by which it could be locked.
home=${HOME:-/}
[ "$home" != / ] || home=/tmp # where a user without a name can write
{
  cat /etc/passwd
  echo "rollcall:x:$(id -u):$(id -g):Rollcall:$home:/bin/sh"
} >"$etc/passwd"

# For the gang's hosts alone, and before what the image has for others: the first value counts.
{
  cat <<END
Host *.$ROLLCALL_DOMAIN $ROLLCALL_NAMES
  Port $ROLLCALL_PORT
  User rollcall
  IdentityFile $dir/ssh/id
  IdentitiesOnly yes
  UserKnownHostsFile $dir/ssh/known_hosts
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ConnectTimeout 10
  ConnectionAttempts 10
  ServerAliveInterval 30
  LogLevel ERROR
  PermitLocalCommand yes
  LocalCommand echo %n >>$dir/ssh/reached
Host *
END
  [ ! -r /etc/ssh/ssh_config ] || cat /etc/ssh/ssh_config
} >"$etc/ssh_config"

cat >"$etc/sshd_config" <<END
Port $ROLLCALL_PORT
HostKey $dir/ssh/id
AuthorizedKeysFile $dir/ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 1024
MaxSessions 1024
ClientAliveInterval 30
LogLevel ERROR
ForceCommand /bin/sh $dir/ssh/session
END

# A session has the variables of its container, which sshd itself does not pass on.
cat >"$dir/ssh/session" <<END
[ ! -r $dir/ssh/environment ] || . $dir/ssh/environment
[ -n "\${SSH_ORIGINAL_COMMAND-}" ] || exec "\${SHELL:-/bin/sh}" -l
exec "\${SHELL:-/bin/sh}" -c "\$SSH_ORIGINAL_COMMAND"
END

cat >"$dir/ssh/sshd" <<END
sshd=\$(command -v sshd || echo /usr/sbin/sshd)
if [ ! -x "\$sshd" ]; then
  echo "rollcall: this image has no sshd; add the package openssh-server, or give the container a command" | tee /dev/termination-log >&2
  exit 127
fi
(umask 077 && export -p >$dir/ssh/environment)
[ "\$(id -u)" != 0 ] || mkdir -p /run/sshd
set -- -D -e -f /etc/ssh/sshd_config
# From OpenSSH 9.8 on, a launcher that looks often whether a host answers would be locked out.
! "\$sshd" -t -o PerSourcePenalties=no -f /etc/ssh/sshd_config 2>/dev/null || set -- "\$@" -o PerSourcePenalties=no
exec "\$sshd" "\$@"
END

# Whoever answers with the gang's key is one of its hosts, and ready; in the order of the hosts. By awk, since greps
# differ in what an empty list of patterns means.
cat >"$dir/ssh/answering" <<END
ssh-keyscan -T 3 -p $ROLLCALL_PORT -t ecdsa -f "\$1" 2>/dev/null | awk -v key="$public" '
  FILENAME == "-" { if (index(\$0, " " key)) { sub(/^\\[/, "", \$1); sub(/\\]*:.*/, "", \$1); there[\$1] } next }
  \$0 in there' - "\$1"
END
