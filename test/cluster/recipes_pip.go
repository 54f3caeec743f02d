package cluster

import "strings"

// wheelPlatforms are what the C library of every suite that we use can run, the newest first.
var wheelPlatforms = []string{"manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014"}

// wheelHook returns a hook of mmdebstrap which installs wheels from outside: so the image needs no pip, and the
// machine's own settings for the index hold. The version is that of the image's Python.
func wheelHook(wheels []string) string {
	return findPython + ` && pip3 install --quiet --disable-pip-version-check --no-compile --only-binary=:all: ` +
		`--target "$1/usr/local/lib/$python/dist-packages" ` + forImage(wheels)
}

// findPython makes $python the name of the image's Python, such as python3.13.
const findPython = `python=$(basename "$(readlink -f "$1/usr/bin/python3")")`

// forImage returns arguments with which pip looks for packages as the image needs them.
func forImage(packages []string) string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[goarch]
	arguments := `--python-version "${python#python}"`
	for _, platform := range wheelPlatforms {
		arguments += " --platform " + platform + "_" + machine
	}
	for _, name := range packages {
		arguments += " " + shellQuote(name)
	}
	return arguments
}

// sourceHook returns a hook of mmdebstrap which fetches Sources from outside, for the same reasons, and installs them
// inside without the network, by a pip that leaves with the other build packages.
func (r Recipe) sourceHook() string {
	const dir = "/var/tmp/sources"
	names := `chroot "$1" dpkg-query --show --showformat '${Package}\n' | sort`
	inside := []string{"cd " + dir, `for file in *.tar.gz; do if test -f "$file"; then tar -xzf "$file"; rm "$file"; fi; done`}
	for _, patch := range r.SourcePatches {
		inside = append(inside, "("+patch+")")
	}
	inside = append(inside, "env "+quoteAll(r.SourceEnv)+"pip3 install --quiet --break-system-packages --root-user-action=ignore "+
		"--no-index --no-deps --no-build-isolation --no-compile ./*")
	return strings.Join([]string{
		"set -e", findPython,
		`mkdir "$1` + dir + `"`,
		`pip3 download --quiet --disable-pip-version-check --no-deps --dest "$1` + dir + `" ` + forImage(r.Sources),
		"before=$(" + names + ")",
		`APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -oDPkg::Chroot-Directory="$1" --quiet --yes --no-install-recommends install python3-pip ` +
			quoteAll(r.BuildPackages),
		`chroot "$1" env --ignore-environment HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec ` +
			shellQuote(strings.Join(inside, "\n")),
		`rm -r "$1` + dir + `"`,
		// What came for the building goes, and nothing else.
		"{ echo \"$before\"; " + names + `; } | sort | uniq -u | xargs chroot "$1" dpkg --purge`,
	}, "\n")
}

// quoteAll quotes each text for a POSIX shell, with a space behind it.
func quoteAll(texts []string) string {
	quoted := ""
	for _, text := range texts {
		quoted += shellQuote(text) + " "
	}
	return quoted
}
