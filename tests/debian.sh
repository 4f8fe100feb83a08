#!/usr/bin/env bash
# Runs `make test` on another Debian, with the Python and the OpenSSL of that system: for root.
#
#   tests/debian.sh SUITE FOLDER [arguments of make]
#
# The root in FOLDER is kept, with a copy of this tree and a .venv of its own, so that the next run
# begins with the tests.
set -euo pipefail

suite=$1 root=$2
shift 2
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
copy=$root/srv/siltstone
packages=ca-certificates,gcc,git,iproute2,make,openssl,procps,python3,python3-dev,python3-venv

"$tree/tests/root.sh" "$suite" "$root" "$packages"

[[ -d $copy/.git ]] || git clone --quiet --no-hardlinks "$tree" "$copy"
git -C "$copy" fetch --quiet --update-shallow "$tree" HEAD
git -C "$copy" reset --quiet --hard FETCH_HEAD
git -C "$copy" clean --quiet --force -d
git -C "$tree" diff --binary HEAD | git -C "$copy" apply --allow-empty
git -C "$tree" ls-files --others --exclude-standard -z |
  tar --directory "$tree" --create --null --files-from=- | tar --directory "$copy" --extract

# What is not installed there is skipped: CI has run those tests outside.
exec "$tree/tests/root.sh" "$suite" "$root" "$packages" make --directory=/srv/siltstone "${@:-test}"
