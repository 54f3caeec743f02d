package cluster

import "slices"

// withSSH are the packages of every image whose programs start each other by ssh: the client and the server, and what
// shell scripts that look for hosts call.
func withSSH(packages ...string) []string {
	return append([]string{"openssh-client", "openssh-server", "libc-bin", "hostname", "python3"}, packages...)
}

// sshSetup makes ssh work for root and for a user with the number 1000, who needs a name: ssh and sshd refuse a number
// without one. As in every image of Debian, /run/sshd is missing: who starts sshd as root has to make it first.
var sshSetup = []string{
	// Keys that a package made are the same in all containers of the image; a gang brings its own.
	"rm -f /etc/ssh/ssh_host_*",
	"useradd --uid 1000 --create-home --shell /bin/sh trainer",
}

// OpenMPI4 is Open MPI 4.1, whose runtime is ORTE, with mpi4py.
var OpenMPI4 = Recipe{
	Name:     "openmpi4",
	Packages: withSSH("openmpi-bin", "python3-mpi4py"),
	Suites:   []string{"bookworm"}, // The last release with Open MPI 4.
	Setup:    sshSetup,
}

// OpenMPI5 is Open MPI 5, whose runtime is PRRTE, with mpi4py. From 5.0.6 on it ignores the settings of Open MPI 4.
var OpenMPI5 = Recipe{
	Name:     "openmpi5",
	Packages: withSSH("openmpi-bin", "python3-mpi4py"),
	Suites:   []string{"trixie"}, // Open MPI 5.0.7.
	Setup:    sshSetup,
}

// MPICH is MPICH 4 with mpi4py.
var MPICH = Recipe{
	Name:     "mpich",
	Packages: withSSH("mpich"),
	Suites:   []string{"trixie"}, // MPICH 4.2.
	Wheels:   []string{"mpi4py==4.1.2"},
	Setup:    sshSetup,
}

// IntelMPI is Intel's MPI library with mpi4py.
var IntelMPI = Recipe{
	Name:     "intelmpi",
	Packages: withSSH("libstdc++6"),
	Suites:   []string{"trixie"},
	Wheels:   []string{"mpi4py==4.1.2"},
	// 2021.19.0 leaves out libfabric, and names a package for it that the index does not have.
	Sources: []string{"impi-rt==2021.18.1"},
	// As Intel's own vars.sh sets them. Without the path no program finds the library, on any host.
	Env: []string{"I_MPI_ROOT=/usr/local", "LD_LIBRARY_PATH=/usr/local/lib"},
	// Benchmarks, a tuner, and the libraries for Fortran and the next ABI.
	Setup: slices.Concat(sshSetup, []string{"cd /usr/local && rm -r bin/IMB-* opt/mpi/tune_fast lib/libmpifort* lib/libmpi_abi*"}),
}
