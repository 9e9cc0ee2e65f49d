#!/bin/sh
# Builds a release: scripts/release.sh VERSION [OUT]
#
#   scripts/release.sh v0.2.0              # into dist/
#   ARCHS=amd64 scripts/release.sh v0.2.0-test.1 /tmp/dist
#
# The script writes into the directory OUT, for each of ARCHS (default: "amd64 arm64"), a tarball
# nicless-VERSION-linux-ARCH.tar.gz, packages of Debian and RPM, and a bill of materials, and the file
# SHA256SUMS. A tarball holds the static command, the C headers with their Makefile, completions, man pages,
# the documentation and all licences. If a C compiler for the processor is installed (gcc,
# aarch64-linux-gnu-gcc), the command contains the library for verbs programs, which loads with glibc 2.31
# and newer. SHIM=no leaves the library out. If PACKAGES (default: bin/packages) has packages of Debian in
# the folder ARCH (scripts/image-packages fetches them), an image of a container is written too, as docker load
# reads it.
#
# It needs no network if the modules are in Go's cache (go mod download; cd release && GOWORK=off go mod download).
#
# The script builds the commit REF (default: HEAD) in a new clone, so files that are not committed are
# left out. The clone is tagged VERSION, tools/VERSION, cmd/nicless/VERSION, cuda/VERSION and
# deploy/VERSION, one tag for each module, so that Go stamps VERSION into the command as it does for "go install ...@VERSION". The same commit, Go and C
# compiler always give the same bytes: files have the commit's time and no owner, and contain no path of this
# machine.
set -eu
umask 022
export LC_ALL=C TZ=UTC

fail() {
	echo "release: error: $*" >&2
	exit 1
}

[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$1
echo "$version" | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$' || fail "version $version; vMAJOR.MINOR.PATCH[-PRERELEASE] is needed"
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel) || fail "this is no git checkout; releases are built from one"
ref=$(git -C "$root" rev-parse --verify --quiet "${REF:-HEAD}^{commit}") || fail "no commit ${REF:-HEAD}"
out=${2:-$root/dist}
mkdir -p "$out"
out=$(cd "$out" && pwd)
GO=${GO:-go}
packaged=${PACKAGES:-$root/bin/packages}

# A version that is not a prerelease must be the newest version in the changelog.
case $version in
*-*) ;;
*)
	newest=$(git -C "$root" show "$ref:CHANGELOG.md" | sed -n 's/^## \(v[0-9][0-9.]*\).*/\1/p' | head -n 1)
	[ "$newest" = "$version" ] || fail "version $version; the newest one in CHANGELOG.md is ${newest:-missing}"
	# go install installs the command with the library and the instruments of the versions that its go.mod names.
	for file in go.work tools/go.mod cmd/nicless/go.mod cuda/go.mod deploy/go.mod examples/otelspans/go.mod; do
		others=$(git -C "$root" show "$ref:$file" | sed -n 's/^.*github.com\/nicless\/nicless[^ ]* \(v[0-9][^ ]*\).*/\1/p' | sort -u | grep -vxF "$version" || true)
		[ -z "$others" ] || fail "version $version; $file names $others: scripts/tidy $version writes the new one"
	done
	;;
esac

work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT INT TERM
src=$work/src
git clone --quiet --no-hardlinks "$root" "$src"
git -C "$src" -c advice.detachedHead=false checkout --quiet "$ref"
# The clone has only the tags of this version, because Go uses the nearest tag.
git -C "$src" tag -l | xargs -r git -C "$src" tag -d >/dev/null
for tag in "$version" "tools/$version" "cmd/nicless/$version" "cuda/$version" "deploy/$version"; do
	git -C "$src" -c user.name=release -c user.email= tag "$tag"
done
SOURCE_DATE_EPOCH=$(git -C "$src" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# compiler ARCH: prints the C compiler for a processor, if one is installed.
compiler() {
	case $1 in
	amd64) names="x86_64-linux-gnu-gcc" machine=x86_64 ;;
	arm64) names="aarch64-linux-gnu-gcc" machine=aarch64 ;;
	*) return 1 ;;
	esac
	[ "$(uname -m)" = "$machine" ] && names="$names gcc cc"
	for name in $names; do
		command -v "$name" && return
	done
	return 1
}

# build_command ARCH OUT: builds the command nicless for a processor, as the file OUT.
build_command() {
	tags=
	if [ "${SHIM:-yes}" = yes ] && [ -e "$src/verbs/shim/Makefile" ] && cc=$(compiler "$1"); then
		make -s -C "$src/release/oldest" CC="$cc" OUT="$work/c/$1"
		"$work/release" glibc "$work/c/$1"/*
		cp "$work/c/$1/libnicless_verbs.so" "$src/verbs/shim"
		cp "$work/c/$1/nicless-ucx" "$src/fabric/ucx/carrier"
		tags=shim
		echo "release: $1: with the library for verbs programs and the carrier for UCX, by $cc"
	else
		echo "release: $1: without the library for verbs programs (no C compiler for it, or SHIM=no)"
	fi
	(cd "$src" && GOFLAGS="${GOFLAGS:-}" CGO_ENABLED=0 GOOS=linux GOARCH=$1 GOAMD64=v1 GOARM64=v8.0 \
		$GO build -trimpath -buildvcs=true -tags "$tags" -ldflags '-s -w -buildid=' -o "$2" ./cmd/nicless)
}

# The part of this script that is in Go.
(cd "$src/release" && GOWORK=off CGO_ENABLED=0 $GO build -trimpath -o "$work/release" .)

# Completions and man pages are the same for all processors. They are written once, by a command
# that is built for this machine.
extras=$work/extras
mkdir -p "$extras/completions"
(cd "$src" && CGO_ENABLED=0 $GO build -trimpath -buildvcs=true -o "$work/host" ./cmd/nicless)
"$work/host" completion bash >"$extras/completions/nicless.bash"
"$work/host" completion zsh >"$extras/completions/_nicless"
"$work/host" completion fish >"$extras/completions/nicless.fish"
"$work/host" man "$extras/man"

rm -f "$out"/SHA256SUMS
for arch in ${ARCHS:-amd64 arm64}; do
	name=nicless-$version-linux-$arch
	dir=$work/tree/$name
	mkdir -p "$dir"
	build_command "$arch" "$dir/nicless"
	cp -R "$extras/." "$dir"
	(cd "$src" && cp LICENSE README.md CHANGELOG.md SECURITY.md "$dir" && cp -R docs "$dir" &&
		mkdir "$dir/include" && cp -R include/nicless include/nicless.pc.in include/Makefile "$dir/include")
	find "$dir" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
	chmod 755 "$dir/nicless"
	"$work/release" licenses -tree "$dir" -modcache "$($GO env GOMODCACHE)" -goroot "$($GO env GOROOT)"
	chmod 644 "$dir/LICENSES"
	of="-tree $dir -arch $arch -version $version -epoch $SOURCE_DATE_EPOCH"
	packages=$("$work/release" packages $of -out "$out")
	"$work/release" bill $of -out "$out/$name.cdx.json"
	image=
	if ls "$packaged/$arch"/*.deb >/dev/null 2>&1; then
		image=$name.image.tar
		"$work/release" image $of -packages "$packaged/$arch" -out "$out/$image"
	else
		echo "release: $arch: without an image, for which $packaged/$arch has no packages (scripts/image-packages)"
	fi
	tar -C "$work/tree" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" \
		--owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
	(cd "$out" && sha256sum "$name.tar.gz" $packages "$name.cdx.json" $image >>SHA256SUMS)
done
cat "$out/SHA256SUMS"
