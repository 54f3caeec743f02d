// Package release builds what a release of Rollcall consists of, without a container engine.
//
// # The idea
//
// A release is a pure function of a commit and a version. Programs are linked without paths, times and
// build IDs, archives and layers contain files in a fixed order with the time of the commit, and images
// contain nothing but a static program and license texts. Two machines with the same Go toolchain get
// the same digests, so anybody can verify a release by building it.
//
// [Source] identifies the commit. [Source.BuildProgram] compiles a program for a [Platform], and
// [BuildIndex] puts the programs of several platforms into one image. [WriteRelease] writes everything
// else into one folder: the chart, which names the image by digest, the archives of the command, the
// files that install it, bills of materials, checksums and the notes.
//
// The module has its own requirements, so that programs that import Rollcall do not depend on them.
package release
