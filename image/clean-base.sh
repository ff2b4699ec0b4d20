#!/bin/sh
# Called by mmdebstrap with the root of the base: takes away what names this machine, this hour or
# nobody, and lets everybody read the rest, which the digest of the tree needs.
set -eu
cd "$1"
rm -rf var/log/* var/cache/ldconfig/aux-cache var/cache/apt var/lib/apt var/cache/debconf/*-old
rm -rf etc/apt/sources.list etc/apt/sources.list.d
rm -rf etc/machine-id var/lib/dbus/machine-id etc/.pwd.lock var/lib/dpkg/*-old
# Nobody logs in here, so there are no passwords.
rm -rf etc/shadow* etc/gshadow* etc/passwd- etc/group- etc/subuid- etc/subgid-
rm -rf var/cache/debconf/passwords.dat
# Made by chance when the packages are configured; the database's image makes its own.
rm -rf etc/ssl/private etc/ssl/certs/ssl-cert-snakeoil.pem var/lib/postgresql
find etc/ssl/certs -xtype l -delete
rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale
# Container engines mount their own over these.
for name in hosts hostname resolv.conf; do rm -f "etc/$name"; : > "etc/$name"; done
chmod 0755 root
everything() {
  find . \( -path ./dev -o -path ./proc -o -path ./sys -o -path ./run -o -path ./tmp \) -prune -o "$@"
}
everything -type d ! -perm -0005 -exec chmod go+rx {} +
everything -type f ! -perm -0004 -exec chmod go+r {} +
everything -type f -perm /6000 -exec chmod a-s {} +
