#!/bin/sh
# Write go.mod and go.sum of this module for another version of Kubernetes: ./upgrade.sh v1.37.0
# To write oldest.mod and oldest.sum, for the oldest supported version: ./upgrade.sh v1.33.0 oldest
# To write v1.35.0.mod and v1.35.0.sum, which git ignores, for tests of that version: ./upgrade.sh v1.35.0 v1.35.0
# Then run ../align.sh.
#
# k8s.io/kubernetes requires its staging modules (for example k8s.io/api) in version v0.0.0 and replaces them with
# directories of its repository. Go uses replace directives only of the main module. So a module that depends on
# k8s.io/kubernetes must replace them with the published version of the same release: v1.X.Y is v0.X.Y.
set -eu
version=${1:?the first argument must be a version of Kubernetes, for example v1.37.0}
name=${2:-go}
cd "$(dirname "$0")"
theirs=$(go mod download -json "k8s.io/kubernetes@$version" | awk -F'"' '$2 == "GoMod" { print $4 }')

rm -f $name.mod $name.sum
{
	echo "// Written by upgrade.sh. Do not edit: run it with another version."
	echo "module rollcall.training/test/cluster/components/kubernetes"
	echo
	grep -E '^(go|godebug) ' "$theirs"
	echo
	echo "require k8s.io/kubernetes $version"
	echo
	echo "replace ("
	awk -v version="v0.${version#v1.}" '$2 == "=>" { print "\t" $1, "=>", $1, version }' "$theirs"
	echo ")"
} > $name.mod
# The etcd server is not a direct dependency of Kubernetes. Require the version that the release was tested with.
go mod edit -require="$(awk '$1 == "go.etcd.io/etcd/server/v3" { print $1 "@" $2 }' "$theirs")" $name.mod
go mod tidy -modfile=$name.mod
