#!/bin/sh
# Give the modules in aligned.work the same versions of the libraries that they have in common: ./align.sh
#
# The go command compiles a package once for several programs only if the versions of the package and of all its
# imports are equal. A workspace selects the highest version that a module requires, and go work sync writes these
# versions into each go.mod.
set -eu
cd "$(dirname "$0")"
export GOFLAGS= GOWORK="$PWD/aligned.work"
modules=$(go list -m -f '{{.Dir}}')
# The replace directives of Kubernetes apply only to its own module. Require the same versions in the others.
awk '$2 == "=>" { print $1, $4 }' kubernetes/go.mod | while read -r path version; do
	for module in $modules; do
		if grep -q "^[[:space:]]*$path v" "$module/go.mod"; then
			go mod edit -require="$path@$version" "$module/go.mod"
		fi
	done
done
go work sync
rm -f aligned.work.sum
export GOWORK=off
for module in $modules; do
	(cd "$module" && go mod tidy)
done
