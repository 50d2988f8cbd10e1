#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../../lib/need.sh" go golang-go
program=${1%-go}
mkdir -p "$2"
cd "$here"
go build -trimpath -o "$2/client" "./$program"
