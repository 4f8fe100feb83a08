#!/usr/bin/env bash
# Makes a root of another Debian by debootstrap, once, and runs a command in it: for root.
#
#   tests/root.sh SUITE FOLDER PACKAGES [command and its arguments]
#
# PACKAGES are names with commas between them; the root in FOLDER is kept. Mounts are seen by
# this run only, and end with it. DEBIAN_ARCHITECTURE, if it is set, is another than this machine's,
# whose programs the kernel hands to qemu-user.
set -euo pipefail

suite=$1 root=$2 packages=$3
shift 3

if ((EUID != 0)); then
  echo "tests/root.sh: only root can make a root and mount in it" >&2
  exit 1
fi

# debootstrap takes its own folder away at the end, and goes on where it was interrupted.
if [[ ! -x $root/usr/bin/python3 || -d $root/debootstrap ]]; then
  echo "siltstone: making a root of Debian $suite in $root, once" >&2
  mkdir -p "$root"
  debootstrap ${DEBIAN_ARCHITECTURE:+"--arch=$DEBIAN_ARCHITECTURE"} --variant=minbase --include="$packages" "$suite" "$root" ${DEBIAN_MIRROR:-} >/dev/null
fi
(($#)) || exit 0

if [[ -z ${IN_ROOT_MOUNTS:-} ]]; then
  IN_ROOT_MOUNTS=yes exec unshare --mount --propagation private "$0" "$suite" "$root" "$packages" "$@"
fi

# Network, names and trusted certificates are those of the host.
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

exec env --unset=CI --unset=SILTSTONE_CACHE --unset=MAKEFLAGS --unset=MAKELEVEL --unset=IN_ROOT_MOUNTS \
  HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" "$@"
