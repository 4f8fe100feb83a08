#!/usr/bin/env bash
# Runs `make test` on another Debian, with the Python and the OpenSSL of that system: for root.
#
#   tests/debian.sh SUITE FOLDER [arguments of make]
#
# The root in FOLDER is made by debootstrap and kept, with a copy of this tree and a .venv of its
# own, so that the next run begins with the tests. Mounts are seen by this run only, and end with it.
set -euo pipefail

suite=$1 root=$2
shift 2
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
copy=$root/srv/siltstone
packages=ca-certificates,gcc,git,iproute2,make,openssl,procps,python3,python3-dev,python3-venv

if ((EUID != 0)); then
  echo "tests/debian.sh: only root can make a root and mount in it" >&2
  exit 1
fi
if [[ -z ${IN_DEBIAN_MOUNTS:-} ]]; then
  IN_DEBIAN_MOUNTS=yes exec unshare --mount --propagation private "$0" "$suite" "$root" "$@"
fi

# debootstrap takes its own folder away at the end, and goes on where it was interrupted.
if [[ ! -x $root/usr/bin/python3 || -d $root/debootstrap ]]; then
  echo "siltstone: making a root of Debian $suite in $root, once" >&2
  mkdir -p "$root"
  debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${DEBIAN_MIRROR:-} >/dev/null
fi

[[ -d $copy/.git ]] || git clone --quiet --no-hardlinks "$tree" "$copy"
git -C "$copy" fetch --quiet --update-shallow "$tree" HEAD
git -C "$copy" reset --quiet --hard FETCH_HEAD
git -C "$copy" clean --quiet --force -d
git -C "$tree" diff --binary HEAD | git -C "$copy" apply --allow-empty
git -C "$tree" ls-files --others --exclude-standard -z |
  tar --directory "$tree" --create --null --files-from=- | tar --directory "$copy" --extract

# The network is the host's, and so are its names and whom it trusts.
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [[ ! -e $file ]] || cp --dereference --remove-destination "$file" "$root$file"
done
mount --types proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
if [[ -d ${PIP_FIND_LINKS:-} ]]; then
  mkdir -p "$root$PIP_FIND_LINKS"
  mount --bind "$PIP_FIND_LINKS" "$root$PIP_FIND_LINKS"
fi

# What is not installed there is skipped, whoever runs this: CI has run those tests outside.
exec env --unset=CI --unset=SILTSTONE_CACHE --unset=MAKEFLAGS --unset=MAKELEVEL \
  HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" make --directory=/srv/siltstone "${@:-test}"
