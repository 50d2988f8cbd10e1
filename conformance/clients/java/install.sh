#!/usr/bin/env bash
set -euo pipefail
here=$(dirname "$0")
"$here/../../lib/need.sh" javac default-jdk-headless
mkdir -p "$2"
javac -nowarn -cp "$("$here/../../lib/jars.sh")" -d "$2" "$here"/*.java
