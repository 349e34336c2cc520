# fish completion for ttlctl(1). What ttlctl knows is asked of ttlctl --help; keys and values are here.

function __ttlctl_subcommands
    ttlctl --help 2>/dev/null | string replace -rf '^ {4}([a-z][a-z-]*) +(.*)$' '$1\t$2'
end

# The words before the cursor that are no options: the subcommand and its operands.
function __ttlctl_operands
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
            continue
        end
        switch $word
            case --mount --sort --as --event --to --collection --key --expire-after --filter --jitter --seconds -n -d
                set skip 1
            case '-*'
            case '*'
                printf '%s\n' $word
        end
    end
end

# __ttlctl_at SUBCOMMAND NUMBER: is that operand asked for?
function __ttlctl_at
    set -l operands (__ttlctl_operands)
    test (count $operands) -eq $argv[2]; and test "$operands[1]" = $argv[1]
end

# __ttlctl_from SUBCOMMAND NUMBER: that operand, or one behind it?
function __ttlctl_from
    set -l operands (__ttlctl_operands)
    test (count $operands) -ge $argv[2]; and test "$operands[1]" = $argv[1]
end

function __ttlctl_options
    set -l operands (__ttlctl_operands)
    ttlctl $operands[1] --help 2>/dev/null | string replace -rf '^ {4}(-.*?)(?: {3}.*)?$' '$1' |
        string split ', ' | string replace -rf '^ *(--?[A-Za-z][A-Za-z-]*).*$' '$1'
end

function __ttlctl_mounts
    string replace -rf '^\S+ (\S+) fuse\.ttlfs .*$' '$1' </proc/self/mounts | string replace -a '\\040' ' '
end

# __ttlctl_indexes DIR [here]
function __ttlctl_indexes
    ttlctl index list -q $argv[1] 2>/dev/null | awk -v where="$argv[2]" 'where == "" || $NF == where {print $1}'
end

function __ttlctl_rules
    printf '%s\n' idle max refresh jitter visibility capped timeseries on-expire prune hold seconds expireAt
end

function __ttlctl_assignments
    for rule in (__ttlctl_rules)
        switch $rule
            case refresh
                printf '%s\n' refresh={access,write,extend,off}
            case visibility
                printf '%s\n' visibility={hidden,until-deleted,off}
            case on-expire
                printf '%s\n' on-expire={delete,archive,off}
            case hold prune
                printf '%s\n' $rule={yes,no,off}
            case expireAt
                printf '%s\n' expireAt={+1h,+1d,never,nx:,xx:,gt:,lt:}
            case '*'
                printf '%s\n' $rule=
        end
    end
    printf '%s\n' index. doc.
end

complete -c ttlctl -f
complete -c ttlctl -n 'test (count (__ttlctl_operands)) -eq 0' -a '(__ttlctl_subcommands)'
complete -c ttlctl -n 'string match -q -- "-*" (commandline -ct)' -a '(__ttlctl_options)'
complete -c ttlctl -l mount -x -a '(__ttlctl_mounts)' -d 'the mount'
complete -c ttlctl -n '__ttlctl_from ls 1' -l sort -x -a 'deadline name size'
complete -c ttlctl -n '__ttlctl_from index 1' -l as -x -a 'date iso8601 epochSeconds epochMillis'
complete -c ttlctl -n '__ttlctl_from events 1' -l event -x -a 'created changed deleted expired archived'
for name in status top due histogram events pass
    complete -c ttlctl -n "__ttlctl_at $name 1" -a '(__ttlctl_mounts)'
end
for name in get set unset
    complete -c ttlctl -n "__ttlctl_at $name 1" -F
end
for name in ls hold restore
    complete -c ttlctl -n "__ttlctl_from $name 1" -F
end
complete -c ttlctl -n '__ttlctl_from get 2' -a '(__ttlctl_rules) deadline remaining reason created accessed error'
complete -c ttlctl -n '__ttlctl_from get 2' -a 'index.(__ttlctl_indexes (__ttlctl_operands)[2])'
complete -c ttlctl -n '__ttlctl_from unset 2' -a '(__ttlctl_rules) index.(__ttlctl_indexes (__ttlctl_operands)[2] here)'
complete -c ttlctl -n '__ttlctl_from set 2' -a '(__ttlctl_assignments)'
complete -c ttlctl -n '__ttlctl_at index 1' -a 'create list modify drop explain'
complete -c ttlctl -n '__ttlctl_at index 2' -a '(__fish_complete_directories)'
complete -c ttlctl -n '__ttlctl_from index 3; and contains -- (__ttlctl_operands)[2] modify drop' \
    -a '(__ttlctl_indexes (__ttlctl_operands)[3] here)'
complete -c ttlctl -n '__ttlctl_at index 3; and test (__ttlctl_operands)[2] = create' -a '_ts _created _accessed'
