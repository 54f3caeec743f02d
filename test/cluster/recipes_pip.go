package cluster

import "strings"

// wheelPlatforms are the platforms that the C library of every suite in use supports, newest first.
var wheelPlatforms = []string{"manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014"}

// formatWheelHook returns a hook of mmdebstrap that installs wheels from outside of the image. So
// the image does not need pip, and the pip settings of this machine apply. The Python version is
// that of the image.
func formatWheelHook(wheels []string) string {
	return findPythonCommand + ` && pip3 install --quiet --disable-pip-version-check --no-compile --only-binary=:all: ` +
		`--target "$1/usr/local/lib/$python/dist-packages" ` + formatPipArgs(wheels)
}

// findPythonCommand sets $python to the name of the image's Python, for example python3.13.
const findPythonCommand = `python=$(basename "$(readlink -f "$1/usr/bin/python3")")`

// formatPipArgs returns the arguments with which pip selects packages for the image.
func formatPipArgs(packages []string) string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[goarch]
	arguments := `--python-version "${python#python}"`
	for _, platform := range wheelPlatforms {
		arguments += " --platform " + platform + "_" + machine
	}
	for _, name := range packages {
		arguments += " " + quoteForShell(name)
	}
	return arguments
}

// formatSourceHook returns a hook of mmdebstrap that downloads Sources from outside of the image,
// for the same reasons. It installs them inside, without the network, with a pip that is removed
// with the other build packages.
func (r Recipe) formatSourceHook() string {
	const dir = "/var/tmp/sources"
	names := `chroot "$1" dpkg-query --show --showformat '${Package}\n' | sort`
	inside := []string{
		"cd " + dir,
		`for file in *.tar.gz; do if test -f "$file"; then tar -xzf "$file"; rm "$file"; fi; done`,
	}
	for _, patch := range r.SourcePatches {
		inside = append(inside, "("+patch+")")
	}
	inside = append(inside, "env "+quoteAllForShell(r.SourceEnv)+
		"pip3 install --quiet --break-system-packages --root-user-action=ignore "+
		"--no-index --no-deps --no-build-isolation --no-compile ./*")
	return strings.Join([]string{
		"set -e", findPythonCommand,
		`mkdir "$1` + dir + `"`,
		`pip3 download --quiet --disable-pip-version-check --no-deps --dest "$1` + dir + `" ` + formatPipArgs(r.Sources),
		"before=$(" + names + ")",
		`APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -oDPkg::Chroot-Directory="$1" --quiet --yes ` +
			`--no-install-recommends install python3-pip ` +
			quoteAllForShell(r.BuildPackages),
		`chroot "$1" env --ignore-environment HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec ` +
			quoteForShell(strings.Join(inside, "\n")),
		`rm -r "$1` + dir + `"`,
		// This removes exactly the packages that were installed for the build.
		"{ echo \"$before\"; " + names + `; } | sort | uniq -u | xargs chroot "$1" dpkg --purge`,
	}, "\n")
}

// quoteAllForShell quotes each text for a POSIX shell, followed by a space.
func quoteAllForShell(texts []string) string {
	quoted := ""
	for _, text := range texts {
		quoted += quoteForShell(text) + " "
	}
	return quoted
}
