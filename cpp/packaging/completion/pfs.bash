# Completes the commands, options, processes and tables of pfs in bash.
_pfs() {
  local kind value
  COMPREPLY=()
  while IFS=, read -r kind value; do
    case $kind in
      file) compopt -o default ;;
      dir) compopt -o dirnames ;;
      *) COMPREPLY+=("$value") ;;
    esac
  done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _PFS_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F _pfs pfs perfschema
