#!/usr/bin/env bash
# usage: need.sh COMMAND PACKAGE [CHECK...]
# Makes sure that COMMAND is there (and that CHECK, a command line, succeeds); installs the Debian PACKAGE
# otherwise. Fails, with the reason on standard error, when that does not help.
set -euo pipefail

command=$1 package=$2
shift 2

present() { command -v "$command" >/dev/null && { (($# == 0)) || "$@" >/dev/null 2>&1; }; }

present "$@" && exit 0
command -v apt-get >/dev/null || { echo "need.sh: no $command, and no apt-get to install $package with" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq "$package" >&2 || { apt-get update -qq >&2 && apt-get install -y -qq "$package" >&2; }
present "$@" || { echo "need.sh: $package does not bring a working $command" >&2; exit 1; }
