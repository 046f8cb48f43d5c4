#!/bin/sh
# Installs a release of Postern below a prefix, after its signature and its sum were checked:
#
#   sh install.sh --key postern-release.pub --from https://example.com/releases/0.1.0
#   sh install.sh --key postern-release.pub --from ./dist/packages --prefix /opt/postern
#
# Take the key from another place than the release: whoever can change the release could change a key
# beside it. Needs openssl 1.1.1 or later, tar, sha256sum or shasum, and curl or wget for a URL.
set -eu

from=. prefix=/usr/local key= signed=yes
fail() {
  echo "install.sh: Cannot install: $1" >&2
  exit 1
}
while [ $# -gt 0 ]; do
  case $1 in
    --from | --prefix | --key)
      [ $# -gt 1 ] || fail "$1 needs a value"
      case $1 in
        --from) from=$2 ;;
        --prefix) prefix=$2 ;;
        --key) key=$2 ;;
      esac
      shift 2
      ;;
    --no-signature) signed=no && shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) fail "there is no option $1; see --help" ;;
  esac
done
if [ "$signed" = yes ] && [ -z "$key" ]; then
  fail "no key was given; give --key FILE, or --no-signature to check the sum alone"
fi

case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there is no release for $(uname -s)" ;;
esac
case $(uname -m) in
  x86_64 | amd64) machine=x64 ;;
  aarch64 | arm64) machine=arm64 ;;
  *) fail "there is no release for $(uname -m)" ;;
esac
target=$system-$machine
if [ "$system" = linux ] && ! ldd --version 2>&1 | grep -qi 'glibc\|gnu libc'; then
  target=$target-musl
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
get() {
  case $from in
    https://* | http://*)
      if command -v curl > /dev/null; then
        curl -fsSL --proto '=https,http' --max-time 600 -o "$work/$1" "$from/$1"
      else
        wget -q -O "$work/$1" "$from/$1"
      fi
      ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || fail "$from/$1 cannot be read"
}

get SHA256SUMS
if [ "$signed" = yes ]; then
  get SHA256SUMS.sig
  openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/SHA256SUMS" \
    -sigfile "$work/SHA256SUMS.sig" > /dev/null 2>&1 ||
    fail "the signature of SHA256SUMS is not by the key $key"
fi
# One archive for each target.
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(postern-[0-9][0-9a-z.+-]*-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
[ -n "$archive" ] || fail "the release has no archive for $target"
[ "$(echo "$archive" | wc -l)" -eq 1 ] || fail "the release has several archives for $target"
get "$archive"
if command -v sha256sum > /dev/null; then sum=sha256sum; else sum="shasum -a 256"; fi
grep "  $archive\$" "$work/SHA256SUMS" | (cd "$work" && $sum -c) > /dev/null 2>&1 ||
  fail "the sum of $archive differs from the one in SHA256SUMS"

tar -xzf "$work/$archive" -C "$work"
mkdir -p "$prefix"
directory=$work/${archive%.tar.gz}
# A running proxy keeps its file: the new one takes the name at once.
mkdir -p "$prefix/bin"
cp "$directory/bin/postern" "$prefix/bin/.postern-new"
chmod 755 "$prefix/bin/.postern-new"
mv -f "$prefix/bin/.postern-new" "$prefix/bin/postern"
cp -R "$directory/share" "$prefix/"
echo "installed ${archive%.tar.gz} in $prefix"
