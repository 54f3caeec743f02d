#!/bin/sh
# Writes this module's go.mod and go.sum for another version of Kubernetes: ./upgrade.sh v1.37.0
# Or floor.mod and floor.sum, for the oldest that is supported: ./upgrade.sh v1.33.0 floor
#
# k8s.io/kubernetes names its own staging modules (k8s.io/api and the like) in the version v0.0.0 and replaces them by
# folders of its repository. A replace line counts in the main module alone, so whoever builds it as a dependency
# must say it again, with the published version of the same release: v1.X.Y is v0.X.Y.
set -eu
version=${1:?give a version of Kubernetes, such as v1.37.0}
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
# etcd exactly as this release was tested with it: the server is not a direct dependency of Kubernetes.
go mod edit -require="$(awk '$1 == "go.etcd.io/etcd/server/v3" { print $1 "@" $2 }' "$theirs")" $name.mod
go mod tidy -modfile=$name.mod
