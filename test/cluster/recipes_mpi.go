package cluster

import "slices"

// appendSSHPackages adds the packages of every image whose programs start each other by ssh: the
// client, the server, and the programs that host discovery scripts call.
func appendSSHPackages(packages ...string) []string {
	return append([]string{"openssh-client", "openssh-server", "libc-bin", "hostname", "python3"}, packages...)
}

// sshSetupCommands make ssh work for root and for user 1000. ssh and sshd reject a user ID without
// a name. As in every Debian image, /run/sshd is missing: a container that starts sshd as root must
// create it.
var sshSetupCommands = []string{
	// Keys that a package created are the same in all containers of the image. Gangs have their own
	// keys.
	"rm -f /etc/ssh/ssh_host_*",
	"useradd --uid 1000 --create-home --shell /bin/sh trainer",
}

// OpenMPI4 is Open MPI 4.1 with mpi4py. Its runtime is ORTE.
var OpenMPI4 = Recipe{
	Name:     "openmpi4",
	Packages: appendSSHPackages("openmpi-bin", "python3-mpi4py"),
	Suites:   []string{"bookworm"}, // the last suite with Open MPI 4
	Setup:    sshSetupCommands,
}

// OpenMPI5 is Open MPI 5 with mpi4py. Its runtime is PRRTE. From 5.0.6 on, it ignores the settings
// of Open MPI 4.
var OpenMPI5 = Recipe{
	Name:     "openmpi5",
	Packages: appendSSHPackages("openmpi-bin", "python3-mpi4py"),
	Suites:   []string{"trixie"}, // Open MPI 5.0.7
	Setup:    sshSetupCommands,
}

// MPICH is MPICH 4 with mpi4py.
var MPICH = Recipe{
	Name:     "mpich",
	Packages: appendSSHPackages("mpich"),
	Suites:   []string{"trixie"}, // MPICH 4.2
	Wheels:   []string{"mpi4py==4.1.2"},
	Setup:    sshSetupCommands,
}

// IntelMPI is Intel's MPI library with mpi4py.
var IntelMPI = Recipe{
	Name:     "intelmpi",
	Packages: appendSSHPackages("libstdc++6"),
	Suites:   []string{"trixie"},
	Wheels:   []string{"mpi4py==4.1.2"},
	// 2021.19.0 does not contain libfabric and depends on a package that the index does not have.
	Sources: []string{"impi-rt==2021.18.1"},
	// These are the settings of Intel's vars.sh. Without the path, programs do not find the library
	// on any host.
	Env: []string{"I_MPI_ROOT=/usr/local", "LD_LIBRARY_PATH=/usr/local/lib"},
	// The commands remove benchmarks, a tuner, and the libraries for Fortran and for the next ABI.
	Setup: slices.Concat(sshSetupCommands, []string{
		"cd /usr/local && rm -r bin/IMB-* opt/mpi/tune_fast lib/libmpifort* lib/libmpi_abi*",
	}),
}
