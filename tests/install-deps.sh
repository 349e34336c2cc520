#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those.
#
#     tests/install-deps.sh [build|demo|test|long|lint|fuzz|bench]...        (default: build test)
#
# What counts is whether the command, library, header or module is there, not the package: nothing is
# installed, updated or asked for when everything is.
set -eu -o pipefail

# group, kind, what must be there, package that brings it
needs() {
    cat <<'TABLE'
build command gcc          gcc
build command make         make
build header  stdlib.h     libc6-dev
build command pkg-config   pkg-config
build library fuse3        libfuse3-dev
build command fusermount3  fuse3
build library libbson-1.0  libbson-dev
build library lmdb         liblmdb-dev
build library libpcre2-8   libpcre2-dev
build library libxxhash    libxxhash-dev
demo  command setfattr     attr
test  command setfattr     attr
test  command getfattr     attr
test  command setfacl      acl
test  command rsync        rsync
test  command inotifywait  inotify-tools
test  module  pytest       python3-pytest
test  command php          php-cli
test  command sqlite3      sqlite3
test  command git          git
test  command zsh          zsh
test  command fish         fish
test  command man          man-db
test  command promtool     prometheus
test  command useradd      passwd
test  command setpriv      util-linux
long  command stress-ng    stress-ng
long  command dbench       dbench
long  command fio          fio
lint  command clang        clang
lint  command clang-tidy   clang-tidy
lint  command clang-format clang-format
lint  command cppcheck     cppcheck
fuzz  command clang        clang
fuzz  runtime fuzzer       libclang-rt-dev
bench command bindfs       bindfs
TABLE
}

there() { # kind, what
    case $1 in
    command) command -v "$2" ;;
    library) pkg-config --exists "$2" ;;
    header) test -e "/usr/include/$2" ;;
    module) /usr/bin/python3 -c "import $2" ;;
    runtime) test -e "$(clang -print-file-name="libclang_rt.$2-$(uname -m).a")" ;;
    esac > /dev/null 2>&1
}

missing_packages() { # group...
    local group kind what package
    while read -r group kind what package; do
        case " $* " in
        *" $group "*) there "$kind" "$what" || echo "$package" ;;
        esac
    done < <(needs) | sort -u
}

[ $# -gt 0 ] || set -- build test
for group; do
    case $group in
    build | demo | test | long | lint | fuzz | bench) ;;
    *)
        sed -n 's/^# \{4,\}/usage: /p' "$0" >&2
        exit 2
        ;;
    esac
done

# Some tools live in folders that an ordinary user's PATH leaves out.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
mapfile -t packages < <(missing_packages "$@")
[ ${#packages[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
fi
if ! command -v apt-get > /dev/null || ! "${as_root[@]}" true 2> /dev/null; then
    echo "These packages are missing, and only root can install them on a Debian system:" >&2
    echo "    apt-get install --no-install-recommends ${packages[*]}" >&2
    exit 1
fi

echo "Installing ${packages[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120)
"${apt[@]}" update < /dev/null
"${apt[@]}" install -y --no-install-recommends "${packages[@]}" < /dev/null

mapfile -t packages < <(missing_packages "$@")
if [ ${#packages[@]} -gt 0 ]; then
    echo "Installed, and still not usable: ${packages[*]}" >&2
    exit 1
fi
