package cluster

import "slices"

// Torch is PyTorch without GPUs, with gloo, for Python 3. It has what a training script needs and nothing to build with.
var Torch = Recipe{
	Name:     "torch",
	Packages: []string{"python3-minimal", "python3-torch"},
	Suites:   []string{"trixie"}, // Torch 2.6; before it was 1.13, whose torchrun knows fewer variables.
	// Debian builds it without libuv, which it otherwise insists on for its store: where a program meets the others it
	// reads the variable, and where torchrun does it takes a default.
	Env: []string{"USE_LIBUV=0"},
	Setup: []string{
		"cd /usr/lib/python3/dist-packages/torch/distributed && " +
			"files='rendezvous.py elastic/rendezvous/static_tcp_rendezvous.py elastic/rendezvous/dynamic_rendezvous.py elastic/rendezvous/c10d_rendezvous_backend.py' && " +
			"sed -i 's/multi_tenant=True,$/multi_tenant=True, use_libuv=False,/' elastic/rendezvous/*.py && " +
			"sed -i 's/is_master=False,$/is_master=False, use_libuv=False,/' rendezvous.py && " +
			"python3 -m compileall -q -f $files",
	},
}

// Boosting is XGBoost and LightGBM without GPUs.
var Boosting = Recipe{
	Name: "boosting",
	// The wheels bring everything but the C++ library and OpenMP.
	Packages: []string{"python3", "libgomp1", "libstdc++6"},
	Suites:   []string{"trixie"},
	// The package xgboost would bring NCCL along; this one is the same program without GPUs.
	Wheels: []string{"xgboost-cpu==3.2.0", "lightgbm==4.7.0"},
}

// TensorFlow is TensorFlow without GPUs.
var TensorFlow = Recipe{
	Name:     "tensorflow",
	Packages: []string{"python3", "libstdc++6"},
	Suites:   []string{"trixie"},
	Wheels:   []string{"tensorflow-cpu==2.21.0"},
}

// JAX is JAX without accelerators.
var JAX = Recipe{
	Name:     "jax",
	Packages: []string{"python3", "libstdc++6"},
	Suites:   []string{"trixie"},
	Wheels:   []string{"jax==0.10.2"},
}

// Paddle is PaddlePaddle without GPUs.
var Paddle = Recipe{
	Name: "paddle",
	// It imports setuptools, which its wheel does not ask for.
	Packages: []string{"python3", "python3-setuptools", "libgomp1", "libstdc++6"},
	Suites:   []string{"trixie"},
	Wheels:   []string{"paddlepaddle==3.3.1"},
	Setup:    []string{compiled},
}

// DeepSpeed is DeepSpeed with the Torch recipe's PyTorch, and with pdsh and Open MPI, by which its launcher starts
// programs elsewhere.
var DeepSpeed = Recipe{
	Name: "deepspeed",
	Packages: withSSH("python3-torch", "python3-einops", "python3-hjson", "python3-msgpack", "python3-cpuinfo", "python3-pydantic",
		"python3-tqdm", "python3-setuptools", "pdsh", "procps", "openmpi-bin", "python3-mpi4py"),
	Suites:  Torch.Suites,
	Sources: []string{"deepspeed==0.19.8"},
	// Without an accelerator it wants one operator, and would compile it when it first communicates.
	SourceEnv:     []string{"DS_BUILD_OPS=0", "DS_BUILD_SHM_COMM=1", "DS_ACCELERATOR=cpu"},
	BuildPackages: []string{"g++", "libtorch-dev", "pybind11-dev", "python3-dev"},
	// Otherwise every process looks for accelerators first.
	Env:   append([]string{"DS_ACCELERATOR=cpu"}, Torch.Env...),
	Setup: slices.Concat(Torch.Setup, sshSetup, []string{compiled}),
}

// Horovod is Horovod with the Torch recipe's PyTorch, over Gloo and over Open MPI. It takes five minutes more than the
// others: the project makes no wheels.
var Horovod = Recipe{
	Name:     "horovod",
	Packages: withSSH("python3-torch", "python3-cloudpickle", "python3-cffi", "python3-setuptools", "openmpi-bin"),
	Suites:   Torch.Suites,
	Sources:  []string{"horovod==0.28.1"},
	// The last release is of 2023: it relies on headers that brought others along, on an older standard than PyTorch now
	// asks for, and on a module that Python has given up.
	SourcePatches: []string{
		"sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' horovod-*/CMakeLists.txt horovod-*/horovod/torch/CMakeLists.txt",
		"sed -i 's/-std=c++11/-std=c++17/' horovod-*/third_party/gloo/CMakeLists.txt",
		"sed -i 's/const size_type count_;/size_type count_;/' horovod-*/third_party/flatbuffers/include/flatbuffers/stl_emulation.h",
		"sed -i 's/from distutils.spawn import find_executable/from shutil import which as find_executable/' horovod-*/horovod/runner/js_run.py",
	},
	SourceEnv: []string{
		"HOROVOD_WITH_PYTORCH=1", "HOROVOD_WITHOUT_TENSORFLOW=1", "HOROVOD_WITHOUT_MXNET=1", "HOROVOD_WITH_GLOO=1", "HOROVOD_WITH_MPI=1",
		"CXXFLAGS=-include string -include stdexcept -include cstdint -w", "LDFLAGS=-s",
		"MAKEFLAGS=-j2", // More than two compilers at a time may want more memory than there is.
	},
	BuildPackages: []string{"cmake", "g++", "libopenmpi-dev", "libtorch-dev", "make", "pybind11-dev", "python3-dev"},
	Env:           Torch.Env,
	Setup:         slices.Concat(Torch.Setup, sshSetup, []string{compiled}),
}

// compiled compiles what pip installed, for the hash of its source as the time of no file is kept. A large framework
// takes seconds to import otherwise, in each process, and a user who may not write there pays them each time.
const compiled = "python3 -m compileall -q /usr/local/lib/python3*/dist-packages"

// Recipes are the recipes that the command knows by name.
var Recipes = byName(Torch, Boosting, TensorFlow, JAX, OpenMPI4, OpenMPI5, MPICH, IntelMPI, Paddle, DeepSpeed, Horovod)

func byName(recipes ...Recipe) map[string]Recipe {
	found := make(map[string]Recipe, len(recipes))
	for _, recipe := range recipes {
		found[recipe.Name] = recipe
	}
	return found
}
