package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// Development is the version of a program whose build recorded none.
const Development = "(devel)"

// The linker sets these variables in releases. See release/program.go.
var (
	version string
	commit  string
)

// Version returns the version of a release, such as v0.2.0. For other builds, it returns the
// pseudo-version of the commit, or [Development].
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, Development)
	}
	return cmp.Or(version, info.Main.Version, Development)
}

// Commit returns the hash of the commit, or an empty string if the build recorded none.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return commit
	}
	return cmp.Or(commit, findSetting(info, "vcs.revision"))
}

func findSetting(info *debug.BuildInfo, key string) string {
	for _, setting := range info.Settings {
		if setting.Key == key {
			return setting.Value
		}
	}
	return ""
}
