package cluster

import "slices"

// Torch is PyTorch for CPUs with gloo, for Python 3. It has everything that a training script needs
// and no build tools.
var Torch = Recipe{
	Name:     "torch",
	Packages: []string{"python3-minimal", "python3-torch"},
	Suites:   []string{"trixie"}, // Torch 2.6; bookworm has 1.13, whose torchrun supports fewer variables
	// Debian builds PyTorch without libuv, but PyTorch's store uses it by default. Programs read
	// the variable when they connect. torchrun uses a default, which Setup changes.
	Env: []string{"USE_LIBUV=0"},
	Setup: []string{
		"cd /usr/lib/python3/dist-packages/torch/distributed && " +
			"files='rendezvous.py elastic/rendezvous/static_tcp_rendezvous.py " +
			"elastic/rendezvous/dynamic_rendezvous.py elastic/rendezvous/c10d_rendezvous_backend.py' && " +
			"sed -i 's/multi_tenant=True,$/multi_tenant=True, use_libuv=False,/' elastic/rendezvous/*.py && " +
			"sed -i 's/is_master=False,$/is_master=False, use_libuv=False,/' rendezvous.py && " +
			"python3 -m compileall -q -f $files",
	},
}

// GradientBoosting is XGBoost and LightGBM for CPUs.
var GradientBoosting = Recipe{
	Name: "boosting",
	// The wheels include everything except the C++ library and OpenMP.
	Packages: []string{"python3", "libgomp1", "libstdc++6"},
	Suites:   []string{"trixie"},
	// The package xgboost depends on NCCL. xgboost-cpu is the same program without GPUs.
	Wheels: []string{"xgboost-cpu==3.2.0", "lightgbm==4.7.0"},
}

// TensorFlow is TensorFlow for CPUs.
var TensorFlow = Recipe{
	Name:     "tensorflow",
	Packages: []string{"python3", "libstdc++6"},
	Suites:   []string{"trixie"},
	Wheels:   []string{"tensorflow-cpu==2.21.0"},
}

// JAX is JAX for CPUs.
var JAX = Recipe{
	Name:     "jax",
	Packages: []string{"python3", "libstdc++6"},
	Suites:   []string{"trixie"},
	Wheels:   []string{"jax==0.10.2"},
}

// Paddle is PaddlePaddle for CPUs.
var Paddle = Recipe{
	Name: "paddle",
	// Paddle imports setuptools, but its wheel does not depend on it.
	Packages: []string{"python3", "python3-setuptools", "libgomp1", "libstdc++6"},
	Suites:   []string{"trixie"},
	Wheels:   []string{"paddlepaddle==3.3.1"},
	Setup:    []string{compilePythonCommand},
}

// DeepSpeed is DeepSpeed with the PyTorch of Torch, and with pdsh and Open MPI, which its launcher
// uses to start remote processes.
var DeepSpeed = Recipe{
	Name: "deepspeed",
	Packages: appendSSHPackages(
		"python3-torch", "python3-einops", "python3-hjson", "python3-msgpack", "python3-cpuinfo", "python3-pydantic",
		"python3-tqdm", "python3-setuptools", "pdsh", "procps", "openmpi-bin", "python3-mpi4py",
	),
	Suites:  Torch.Suites,
	Sources: []string{"deepspeed==0.19.8"},
	// Without an accelerator, DeepSpeed needs one operator, and would compile it on the first
	// communication.
	SourceEnv:     []string{"DS_BUILD_OPS=0", "DS_BUILD_SHM_COMM=1", "DS_ACCELERATOR=cpu"},
	BuildPackages: []string{"g++", "libtorch-dev", "pybind11-dev", "python3-dev"},
	// Otherwise every process first searches for accelerators.
	Env:   append([]string{"DS_ACCELERATOR=cpu"}, Torch.Env...),
	Setup: slices.Concat(Torch.Setup, sshSetupCommands, []string{compilePythonCommand}),
}

// Horovod is Horovod with the PyTorch of Torch, for Gloo and Open MPI. Its build takes five minutes
// longer than the others, because the project publishes no wheels.
var Horovod = Recipe{
	Name: "horovod",
	Packages: appendSSHPackages("python3-torch",
		"python3-cloudpickle", "python3-cffi", "python3-setuptools", "openmpi-bin"),
	Suites:  Torch.Suites,
	Sources: []string{"horovod==0.28.1"},
	// The last release is of 2023. It relies on transitive includes, on an older C++ standard than
	// PyTorch requires, and on a module that Python has removed.
	SourcePatches: []string{
		"sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' " +
			"horovod-*/CMakeLists.txt horovod-*/horovod/torch/CMakeLists.txt",
		"sed -i 's/-std=c++11/-std=c++17/' horovod-*/third_party/gloo/CMakeLists.txt",
		"sed -i 's/const size_type count_;/size_type count_;/' " +
			"horovod-*/third_party/flatbuffers/include/flatbuffers/stl_emulation.h",
		"sed -i 's/from distutils.spawn import find_executable/from shutil import which as find_executable/' " +
			"horovod-*/horovod/runner/js_run.py",
	},
	SourceEnv: []string{
		"HOROVOD_WITH_PYTORCH=1", "HOROVOD_WITHOUT_TENSORFLOW=1", "HOROVOD_WITHOUT_MXNET=1",
		"HOROVOD_WITH_GLOO=1", "HOROVOD_WITH_MPI=1",
		"CXXFLAGS=-include string -include stdexcept -include cstdint -w", "LDFLAGS=-s",
		"MAKEFLAGS=-j2", // more compilers may need more memory than available
	},
	BuildPackages: []string{"cmake", "g++", "libopenmpi-dev", "libtorch-dev", "make", "pybind11-dev", "python3-dev"},
	Env:           Torch.Env,
	Setup:         slices.Concat(Torch.Setup, sshSetupCommands, []string{compilePythonCommand}),
}

// TorchLaunchers is the PyTorch of Torch with accelerate and Lightning. Both packages depend on the
// torch of PyPI, which is built for CUDA. Sources installs them without their dependencies.
var TorchLaunchers = Recipe{
	Name: "torch-launchers",
	Packages: slices.Concat(Torch.Packages, []string{
		"python3", "python3-numpy", "python3-packaging", "python3-psutil", "python3-yaml",
	}),
	Suites:  Torch.Suites,
	Wheels:  []string{"huggingface-hub==0.36.0", "lightning-utilities==0.15.2", "safetensors==0.6.2"},
	Sources: []string{"accelerate==1.15.0", "pytorch-lightning==2.6.6", "torchmetrics==1.8.2"},
	Env:     Torch.Env,
	Setup: slices.Concat(Torch.Setup, []string{
		compilePythonCommand,
		// Debian builds PyTorch with MPI, and accelerate prefers MPI to gloo on CPUs. PyPI's torch has no MPI.
		"cd /usr/lib/python3/dist-packages/torch/distributed && " +
			"sed -i 's/^_MPI_AVAILABLE = True$/_MPI_AVAILABLE = False/' distributed_c10d.py && " +
			"python3 -m compileall -q -f distributed_c10d.py",
	}),
}

// compilePythonCommand compiles the packages that pip installed. It uses the hash of the source,
// because files of the image have no times. Without it, each process takes seconds to import a
// large framework if its user cannot write there.
const compilePythonCommand = "python3 -m compileall -q /usr/local/lib/python3*/dist-packages"

// Recipes maps names to recipes for the command.
var Recipes = indexRecipesByName(
	Torch, GradientBoosting, TensorFlow, JAX, OpenMPI4, OpenMPI5, MPICH, IntelMPI, Paddle, DeepSpeed, Horovod,
	TorchLaunchers,
)

func indexRecipesByName(recipes ...Recipe) map[string]Recipe {
	found := make(map[string]Recipe, len(recipes))
	for _, recipe := range recipes {
		found[recipe.Name] = recipe
	}
	return found
}
