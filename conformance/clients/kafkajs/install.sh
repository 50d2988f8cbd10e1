#!/usr/bin/env bash
set -euo pipefail
here=$(dirname "$0")
"$here/../../lib/need.sh" node nodejs
"$here/../../lib/need.sh" npm npm
mkdir -p "$2"
cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc "$2"/
npm ci --loglevel=error --no-audit --no-fund --prefix "$2"
cp "$here"/*.js "$2"/
