# Completes the commands, options, processes and tables of pfs in fish. pfs answers as bash asks: a line with a kind and a text.
function __pfs_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    for line in (env COMP_WORDS="$before $current" COMP_CWORD=(count $before) _PFS_COMPLETE=bash_complete $before[1] 2>/dev/null)
        set -l parts (string split -m 1 , -- $line)
        switch $parts[1]
            case file
                __fish_complete_path $current
            case dir
                __fish_complete_directories $current
            case '*'
                echo $parts[2]
        end
    end
end
complete -c pfs -f -a '(__pfs_complete)'
complete -c perfschema -f -a '(__pfs_complete)'
