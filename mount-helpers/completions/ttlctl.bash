# bash completion for ttlctl(1). What ttlctl knows is asked of ttlctl --help; keys and values are here.

_ttlctl_subcommands() {
    ttlctl --help 2> /dev/null | sed -n 's/^    \([a-z][a-z-]*\)  .*/\1/p'
}

# _ttlctl_options [SUBCOMMAND]
_ttlctl_options() {
    ttlctl "$@" --help 2> /dev/null | sed -n '/^    -/{s/^ *//;s/   .*//;s/,/\n/g;p}' | sed -n 's/^ *\(--*[A-Za-z-]*\).*/\1/p'
}

_ttlctl_mounts() {
    local device point type rest
    while read -r device point type rest; do
        if [ "$type" = fuse.ttlfs ]; then
            printf '%b\n' "${point//\\/\\0}"
        fi
    done < /proc/self/mounts
}

# _ttlctl_indexes DIR WHERE: names of indexes; WHERE is `here` for those set there, or empty for all.
_ttlctl_indexes() {
    ttlctl index list -q "$1" 2> /dev/null | awk -v where="$2" 'where == "" || $NF == where {print $1}'
}

_ttlctl_reply() { # words, one a line
    local IFS=$'\n'
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen -W "$1" -- "$2"))
}

_ttlctl_files() { # kind for compgen -A, word
    local IFS=$'\n'
    compopt -o filenames 2> /dev/null
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen -A "$1" -- "$2"))
}

_ttlctl_rules=$'idle\nmax\nrefresh\njitter\nvisibility\ncapped\ntimeseries\non-expire\nprune\nhold\nseconds\nexpireAt'
_ttlctl_figures=$'deadline\nremaining\nreason\ncreated\naccessed\nerror'

_ttlctl_values() { # key, word
    case $1 in
    refresh | user.ttl.refresh) _ttlctl_reply $'access\nwrite\nextend\noff' "$2" ;;
    visibility | user.ttl.visibility) _ttlctl_reply $'hidden\nuntil-deleted\noff' "$2" ;;
    on-expire | user.ttl.on-expire) _ttlctl_reply $'delete\narchive\noff' "$2" ;;
    hold | prune | user.ttl.hold | user.ttl.prune) _ttlctl_reply $'yes\nno\noff' "$2" ;;
    idle | max | jitter | seconds | user.ttl.*) _ttlctl_reply $'30s\n15m\n12h\n7d' "$2" ;;
    expireAt) _ttlctl_reply $'+1h\n+1d\nnever\nnx:\nxx:\ngt:\nlt:' "$2" ;;
    esac
}

# The indexes of a directory as keys.
_ttlctl_index_keys() {
    _ttlctl_indexes "$1" "$2" | sed 's/^/index./'
}

_ttlctl_operand() { # subcommand, number, word; the operands before it are in `operands`
    local first=${operands[0]-} second=${operands[1]-}
    case $1:$2 in
    status:1 | top:1 | due:1 | histogram:1 | events:1 | pass:1) _ttlctl_reply "$(_ttlctl_mounts)" "$3" ;;
    get:1 | set:1 | unset:1 | ls:* | hold:* | restore:*) _ttlctl_files file "$3" ;;
    get:*) _ttlctl_reply "$_ttlctl_figures"$'\n'"$_ttlctl_rules"$'\n'"$(_ttlctl_index_keys "$first" '')" "$3" ;;
    unset:*) _ttlctl_reply "$_ttlctl_rules"$'\n'"$(_ttlctl_index_keys "$first" here)" "$3" ;;
    set:*)
        compopt -o nospace 2> /dev/null
        _ttlctl_reply "$(sed 's/$/=/' <<< "$_ttlctl_rules")"$'\nindex.\ndoc.' "$3"
        ;;
    index:1) _ttlctl_reply $'create\nlist\nmodify\ndrop\nexplain' "$3" ;;
    index:2) _ttlctl_files directory "$3" ;;
    index:*)
        case $first in
        modify) [ "$2" -gt 3 ] || _ttlctl_reply "$(_ttlctl_indexes "$second" here)" "$3" ;;
        drop) _ttlctl_reply "$(_ttlctl_indexes "$second" here)" "$3" ;;
        create) [ "$2" -gt 3 ] || _ttlctl_reply $'_ts\n_created\n_accessed' "$3" ;;
        esac
        ;;
    esac
}

# The value of an option, if the word before is one that takes a value. Returns 1 if it is not.
_ttlctl_option_value() { # option, word
    case $1 in
    --mount) _ttlctl_reply "$(_ttlctl_mounts)" "$2" ;;
    --sort) _ttlctl_reply $'deadline\nname\nsize' "$2" ;;
    --as) _ttlctl_reply $'date\niso8601\nepochSeconds\nepochMillis' "$2" ;;
    --event) _ttlctl_reply $'created\nchanged\ndeleted\nexpired\narchived' "$2" ;;
    --to | --collection) _ttlctl_files directory "$2" ;;
    --key | --expire-after | --filter | --jitter | --seconds | -n | -d) COMPREPLY=() ;;
    *) return 1 ;;
    esac
}

_ttlctl() {
    local words=() operands=() subcommand='' i word cur
    COMPREPLY=()
    # bash cuts words at `=` and `:`; here KEY=VALUE is one.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [ ${#words[@]} -gt 0 ] && { [[ $word == [=:]* ]] || [[ ${words[-1]} == *[=:] ]]; } &&
            [[ $COMP_LINE == *"${words[-1]}$word"* ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    cur=${words[-1]-}
    for ((i = 0; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        case $word in
        --mount | --sort | --as | --event | --to | --collection | --key | --expire-after | --filter | --jitter | --seconds | -n | -d)
            if ((i == ${#words[@]} - 2)); then
                _ttlctl_option_value "$word" "$cur"
                return
            fi
            ((i++))
            ;;
        -*) ;;
        *) if [ -z "$subcommand" ]; then subcommand=$word; else operands+=("$word"); fi ;;
        esac
    done
    if [[ $cur == -* ]]; then
        # shellcheck disable=SC2046,SC2086
        _ttlctl_reply "$(_ttlctl_options $subcommand)" "$cur"
    elif [ -z "$subcommand" ]; then
        _ttlctl_reply "$(_ttlctl_subcommands)" "$cur"
    elif [ "$subcommand" = set ] && [ ${#operands[@]} -gt 0 ] && [[ $cur == *=* ]]; then
        _ttlctl_values "${cur%%=*}" "${cur#*=}"
    else
        _ttlctl_operand "$subcommand" $((${#operands[@]} + 1)) "$cur"
    fi
}

complete -F _ttlctl ttlctl
