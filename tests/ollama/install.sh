#!/bin/sh
# Builds the real Ollama server into the folder $1 unless it is there already.
# Minutes the first time, a second while Go's build cache is warm. It needs
# g++ and the headers of nlohmann-json3-dev and libstb-dev (`make peers`
# installs them); headers/ fills in what the module's zip leaves out.
set -eu
version=v0.24.0 # the newest whose engine is inside the Go module
here=$(cd "$(dirname "$0")" && pwd)
out=$1
recipe=$(cat "$0" "$here"/headers/*/*.h | cksum)
[ -x "$out/ollama" ] && [ "$(cat "$out/recipe" 2>/dev/null)" = "$recipe" ] && exit 0

echo "building ollama $version into $out (some minutes, once)"
mkdir -p "$out"
work=$(mktemp -d "$out/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
# -O1 and no debug information: a third less to compile; the hot C files set
# their own level. GOFLAGS is ours, since -mod=mod and the like don't fit here.
cd "$work"
env -u GOOS -u GOARCH CGO_ENABLED=1 GOFLAGS=-buildvcs=false GOBIN="$work" \
	CGO_CPPFLAGS="-I$here/headers" CGO_CFLAGS="-O1 -g0" CGO_CXXFLAGS="-O1 -g0" \
	"${GO:-go}" install -ldflags "-s -w -X github.com/ollama/ollama/version.Version=${version#v}" \
	"github.com/ollama/ollama@$version"
mv "$work/ollama" "$out/ollama"
echo "$recipe" >"$out/recipe"
