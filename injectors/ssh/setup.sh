# Runs in an init container of every rank, as the user of the training container. Writes the files that ssh requires to
# belong to this user into $dir, and the system-wide files that the training container must not change into $config.
# The environment names the hosts of the gang. The function print_hosts of package hostfile precedes the script. Only
# tests set ROLLCALL_DIR, ROLLCALL_CONFIG_DIR and ROLLCALL_KEY_DIR.
set -eu
umask 022
dir=${ROLLCALL_DIR:-/etc/rollcall} config=${ROLLCALL_CONFIG_DIR:-/etc/rollcall-config} key=${ROLLCALL_KEY_DIR:-/etc/rollcall-key}
# Some shells write here-documents to a temporary file.
export TMPDIR="$dir"
mkdir -p "$dir/ssh" "$dir/mpi"

print_hosts "$ROLLCALL_HOSTS" >"$dir/mpi/hosts"
# A launcher that is a host is listed by its bare hostname, because every MPI implementation recognizes its own host by
# that name. With a longer name, MPICH and Intel MPI would connect to the launcher by ssh, and PRRTE would not find the
# launcher in a host list of the user.
[ "$ROLLCALL_LAUNCHER_IS_HOST" != true ] || sed -i '1s/\..*//' "$dir/mpi/hosts"
sed "s/\$/ slots=$ROLLCALL_SLOTS_PER_WORKER/" "$dir/mpi/hosts" >"$dir/mpi/hostfile.slots"
sed "s/\$/:$ROLLCALL_SLOTS_PER_WORKER/" "$dir/mpi/hosts" >"$dir/mpi/hostfile.hydra"
cp "$dir/mpi/hostfile.$ROLLCALL_HOSTFILE_FORMAT" "$dir/mpi/hostfile"

# Elastic launchers run discover_hosts.sh to list the hosts that respond now, with their slots. The pod of the launcher
# runs no sshd, so it is listed without a query.
print_hosts "${ROLLCALL_MAX_HOSTS:-$ROLLCALL_HOSTS}" >"$dir/mpi/candidates"
[ "$ROLLCALL_LAUNCHER_IS_HOST" != true ] || sed -n 1p "$dir/mpi/candidates" >"$dir/mpi/self"
[ "$ROLLCALL_LAUNCHER_IS_HOST" != true ] || sed -i 1d "$dir/mpi/candidates"
cat >"$dir/mpi/discover_hosts.sh" <<END
#!/bin/sh
{
  [ ! -e $dir/mpi/self ] || cat $dir/mpi/self
  [ ! -e $dir/ssh/responding ] || sh $dir/ssh/responding $dir/mpi/candidates
} | sed 's/\$/:$ROLLCALL_SLOTS_PER_WORKER/'
END
chmod 755 "$dir/mpi/discover_hosts.sh"

# A gang of one host has no key pair and needs no ssh.
[ -e "$key/ssh-privatekey" ] || exit 0

# ssh rejects a private key that other users can read, and a user without a name.
rm -f "$dir/ssh/id"
(umask 077 && cat "$key/ssh-privatekey" >"$dir/ssh/id")
# Anybody who may create Secrets can create one with the predictable name before Rollcall does. So its text is never part
# of a script, and becomes part of a configuration only if it is a public key and nothing else.
LC_ALL=C awk 'NR == 1 && $1 == "ecdsa-sha2-nistp256" && $2 ~ /^[A-Za-z0-9+\/]+=*$/ { print $1, $2 }' "$key/ssh-publickey" >"$dir/ssh/public"
if [ ! -s "$dir/ssh/public" ]; then
  echo "rollcall: the ssh-publickey of the Secret is not a key that Rollcall created; delete the Secret, and Rollcall creates another one" | tee /dev/termination-log >&2
  exit 1
fi
# The key permits commands with a terminal, and no forwarding of any kind.
sed 's/^/restrict,pty /' "$dir/ssh/public" >"$dir/ssh/authorized_keys"
sed 's/^/* /' "$dir/ssh/public" >"$dir/ssh/known_hosts"
# A user without a home directory can write to /tmp.
home=${HOME:-/}
[ "$home" != / ] || home=/tmp
# The user name is the same on all hosts. The user has an existing shell, and no shadow entry that could be locked.
{
  cat /etc/passwd
  echo "rollcall:x:$(id -u):$(id -g):Rollcall:$home:/bin/sh"
} >"$config/passwd"

# The section applies only to the hosts of the gang. It precedes the configuration of the image, because ssh uses the
# first value of an option.
{
  cat <<END
Host *.$ROLLCALL_DOMAIN $ROLLCALL_HOST_PATTERNS
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
} >"$config/ssh_config"

cat >"$config/sshd_config" <<END
Port $ROLLCALL_PORT
HostKey $dir/ssh/id
AuthorizedKeysFile $dir/ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding no
AllowStreamLocalForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
PermitUserRC no
MaxStartups 1024
MaxSessions 1024
ClientAliveInterval 30
LogLevel ERROR
ForceCommand /bin/sh $dir/ssh/session
END

# sshd does not pass the variables of its container to a session, so the session reads them from a file.
cat >"$dir/ssh/session" <<END
[ ! -r $dir/ssh/environment ] || . $dir/ssh/environment
[ -n "\${SSH_ORIGINAL_COMMAND-}" ] || exec "\${SHELL:-/bin/sh}" -l
exec "\${SHELL:-/bin/sh}" -c "\$SSH_ORIGINAL_COMMAND"
END

# From OpenSSH 9.8 on, sshd would block a launcher that often checks whether a host responds.
cat >"$dir/ssh/sshd" <<END
sshd=\$(command -v sshd || echo /usr/sbin/sshd)
if [ ! -x "\$sshd" ]; then
  echo "rollcall: the image does not contain sshd; install the package openssh-server or set a command for the container" | tee /dev/termination-log >&2
  exit 127
fi
(umask 077 && export -p >$dir/ssh/environment)
[ "\$(id -u)" != 0 ] || mkdir -p /run/sshd
set -- -D -e -f /etc/ssh/sshd_config
! "\$sshd" -t -o PerSourcePenalties=no -f /etc/ssh/sshd_config 2>/dev/null || set -- "\$@" -o PerSourcePenalties=no
exec "\$sshd" "\$@"
END

# Prints those hosts of a file that respond with the key of the gang, in the order of the file. awk filters the hosts,
# because implementations of grep disagree on the meaning of an empty pattern list.
cat >"$dir/ssh/responding" <<END
ssh-keyscan -T 3 -p $ROLLCALL_PORT -t ecdsa -f "\$1" 2>/dev/null | awk '
  FILENAME == ARGV[1] { key = \$0; next }
  FILENAME == "-" { if (index(\$0, " " key)) { sub(/^\\[/, "", \$1); sub(/\\]*:.*/, "", \$1); responding[\$1] } next }
  \$0 in responding' $dir/ssh/public - "\$1"
END
