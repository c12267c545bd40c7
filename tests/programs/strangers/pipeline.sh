# The lines of a pipeline are flushed one by one; mended, in blocks. PYTHON is the interpreter.
here=$(dirname "$0")
"${PYTHON:-python3}" "$here/source.py" "$@" | tr a-z A-Z | sort | uniq -c | sort -n | tail -n 1
